"""How a dump is sorted."""

from __future__ import annotations

import pytest

from pgrepl.basebackup.dump import Dump
from pgrepl.basebackup.objects import SourceObjects
from pgrepl.basebackup.sift import SchemaPlan, sift
from pgrepl.basebackup.views import Views
from pgrepl.errors import SourceError
from pgrepl.remap import SchemaMap
from pgrepl.syntax import parse

NOTHING = SourceObjects(tables=[], other_tables=[], needed=[], views=Views(), members=[], unseen=[])


def sifted(before: str = "", after: str = "") -> SchemaPlan:
    dump = Dump(parse(before), parse(after))
    return sift(dump, NOTHING, SchemaMap({}), with_all_indexes=False)


@pytest.mark.parametrize("section", ["before", "after"])
def test_statement_of_no_known_kind_is_an_error_that_does_not_blame_the_patterns(section):
    with pytest.raises(SourceError, match=r"does not know .*: NotifyStmt") as caught:
        sifted(**{section: "notify x"})
    assert "report" in (caught.value.hint or "")
