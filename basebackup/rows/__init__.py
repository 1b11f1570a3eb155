"""The rows: cut into parts, copied by workers, COPY into COPY."""
