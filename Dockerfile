# pgrepl with all its extras, a Java runtime and PostgreSQL's client programs.
#   docker build -t pgrepl .
# State is on the target: the container needs its configuration and passwords, and nothing else.
FROM python:3.13-slim-trixie AS build
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends gcc libc6-dev \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN python -m venv /opt/pgrepl \
 && /opt/pgrepl/bin/pip install --no-cache-dir '.[kafka,monitor,parquet]'

FROM python:3.13-slim-trixie
# The security fixes of the distribution are wanted, so no version is pinned.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-21-jre-headless postgresql-client \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 999 --home-dir /var/lib/pgrepl --create-home --shell /usr/sbin/nologin pgrepl \
 && install -d -o pgrepl -m 0700 /var/lib/pgrepl/.cache
COPY --from=build /opt/pgrepl /opt/pgrepl
ENV PATH="/opt/pgrepl/bin:$PATH" \
    PGREPL_CONFIG=/etc/pgrepl/pgrepl.toml \
    PGPASSFILE=/run/secrets/pgpass
USER 999
WORKDIR /var/lib/pgrepl
# SIGTERM ends a receiver or a replayer in good order, SIGHUP has it read its configuration again.
STOPSIGNAL SIGTERM
ENTRYPOINT ["pgrepl"]
CMD ["--help"]
