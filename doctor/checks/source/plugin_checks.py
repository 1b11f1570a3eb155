"""Judge the output plugin and what keeps a new slot waiting, after it was tried.

Every function is pure: facts in, a finding out.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.sql import SQL, Composed, Identifier, Literal

from pgrepl.catalog.slots import Slot
from pgrepl.catalog.writers import Writer
from pgrepl.config.model import Plugin
from pgrepl.doctor.finding import Finding, Remedy, Status, listed
from pgrepl.doctor.plugin_probe import PATIENCE_S, PluginState, Probe
from pgrepl.doctor.settings_list import split_list
from pgrepl.doctor.source_facts import PluginList, SourceFacts, SourceServer

__all__ = ["check_plugin_and_writers"]


def check_plugin_and_writers(
    plugin: Plugin, facts: SourceFacts, probe: Probe | None, writers: Sequence[Writer]
) -> list[Finding]:
    """Run every check that rests on the attempt; ``probe`` is None when it was not possible."""
    if plugin == "pgoutput":
        about_plugin = [
            Finding.ok("plugin-allowed", "every server allows pgoutput"),
            check_plugin(plugin, facts.server, probe),
            Finding.ok("special-floats", "pgoutput carries NaN and Infinity"),
        ]
    else:
        about_plugin = [
            check_plugin_allowed(facts.server.role, facts.plugins, facts.slot, probe),
            check_plugin(plugin, facts.server, probe),
            check_special_floats(facts, probe),
        ]
    return [
        *about_plugin,
        check_writers(facts.slot, probe, writers),
    ]


def check_plugin_allowed(
    role: str, plugins: PluginList, slot: Slot | None, probe: Probe | None
) -> Finding:
    """Since 15.19 a server runs only the output plugins that ``output_plugin_libraries`` lists."""
    if not plugins.exists:
        return Finding.ok("plugin-allowed", "this server lets any output plugin run")
    names = split_list(plugins.value or "")
    # Where the plugin was tried the server has answered; the list only explains the answer.
    if probe is not None:
        is_allowed = probe.state is not PluginState.NOT_ALLOWED
    elif plugins.value is None and slot is not None:
        return Finding.skipped("plugin-allowed", "cannot be tried while all slots are in use")
    else:
        is_allowed = "wal2json" in names
    if is_allowed:
        return Finding.ok("plugin-allowed", "the server allows wal2json to this role")
    if any("," in name and "wal2json" in name for name in names):
        # This is what ALTER SYSTEM makes of a single quoted text.
        why = (
            f"output_plugin_libraries is one name with commas in it, {plugins.value}:"
            " a single quoted text is a single name"
        )
    elif plugins.value is None and probe is None:
        # Servers do not list it by default, and to list it once more does no harm.
        why = "output_plugin_libraries cannot be read, and lists wal2json on no server by default"
    else:
        why = "output_plugin_libraries does not list wal2json, so the server refuses the plugin"
    # For this role alone: what others may run is not ours to change.
    statement = SQL(
        "ALTER ROLE {} SET output_plugin_libraries = pgoutput, test_decoding, wal2json"
    ).format(Identifier(role))
    remedy = Remedy.of(statement, then="or add wal2json to the list of the whole server")
    return Finding("plugin-allowed", Status.FAILURE, why, remedy)


def check_plugin(plugin: Plugin, server: SourceServer, probe: Probe | None) -> Finding:
    """The plugin is installed and starts."""
    if probe is None:
        return Finding.skipped("plugin", "cannot be tried before the failures above are fixed")
    if probe.state in (PluginState.USABLE, PluginState.BLOCKED):
        return Finding.ok("plugin", f"{plugin} is installed")
    if probe.state is PluginState.NOT_ALLOWED:
        return Finding.skipped("plugin", "cannot be tried before the server allows it")
    if probe.state is PluginState.MISSING:
        major = server.version_num // 10000
        return Finding(
            "plugin",
            Status.FAILURE,
            f"{plugin} is not installed on the server: {probe.reason}",
            Remedy(
                shell=(f"apt-get install postgresql-{major}-wal2json",),
                then=f"the package is called wal2json_{major} or wal2json on Red Hat systems",
            ),
        )
    return Finding("plugin", Status.FAILURE, f"{plugin} does not start: {probe.reason}")


def check_special_floats(facts: SourceFacts, probe: Probe | None) -> Finding:
    """Before 2.6 wal2json prints NaN and Infinity as null."""
    tables = [table.name for table in facts.tables if table.has_floats]
    if probe is None or probe.has_text_numbers is None:
        return Finding.skipped("special-floats", "cannot be checked before the plugin was tried")
    if probe.has_text_numbers:
        return Finding.ok("special-floats", "wal2json 2.6 or newer carries NaN and Infinity")
    if not tables:
        return Finding.ok("special-floats", "no replicated table has float or numeric columns")
    return Finding(
        "special-floats",
        Status.WARNING,
        f"wal2json is older than 2.6 and sends NaN and Infinity as null;"
        f" float or numeric columns: {listed(tables)}",
        Remedy(then="upgrade wal2json to 2.6 where these columns may hold NaN or Infinity"),
        tuple(tables),
    )


def check_writers(slot: Slot | None, probe: Probe | None, writers: Sequence[Writer]) -> Finding:
    """A new slot waits until every transaction that has written ends, in any database."""
    if slot is not None:
        return Finding.ok("writers", "the slot is there, no transaction can block its creation")
    if probe is None:
        return Finding.skipped("writers", "cannot be checked before a slot can be made")
    if probe.state is not PluginState.BLOCKED:
        return Finding.ok("writers", "no open transaction blocks the creation of the slot")
    names = tuple(str(writer) for writer in writers)
    return Finding(
        "writers",
        Status.WARNING,
        f"a new slot waits for open transactions, and did so for {PATIENCE_S} s: {listed(names)}",
        Remedy.of(*(_end(writer) for writer in writers), then="or let them end by themselves"),
        names,
    )


def _end(writer: Writer) -> SQL | Composed:
    if writer.gid is not None:
        return SQL("ROLLBACK PREPARED {}").format(Literal(writer.gid))
    return SQL("SELECT pg_terminate_backend({})").format(Literal(writer.pid))
