"""A shop that is open: small transactions, one after the other, until it closes."""

from __future__ import annotations

import random
import threading
from typing import Self

import psycopg

from pgrepl.throwaway.self_closing import SelfClosing

__all__ = ["Workload"]


class Workload(SelfClosing):
    """Transactions on one source in a thread of their own, while the context lasts."""

    def __init__(self, dsn: str) -> None:
        """Prepare; nothing runs yet."""
        self._dsn = dsn
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        #: How many transactions have committed.
        self.count = 0

    def __enter__(self) -> Self:
        """Open the shop."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Close it when the transaction in hand is done."""
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        dice = random.Random(self._dsn)  # noqa: S311  a demonstration needs no secrets
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            while not self._is_over.wait(0.001):
                customer = dice.randint(1, 1000)
                with connection.transaction():
                    connection.execute(
                        "insert into purchase (customer_id, amount) values (%s, %s)",
                        (customer, dice.randint(1, 9999) / 100),
                    )
                    connection.execute(
                        "update customer set purchase_count = purchase_count + 1 where id = %s",
                        (customer,),
                    )
                    connection.execute("delete from page_view where id = %s", (self.count + 1,))
                self.count += 1
