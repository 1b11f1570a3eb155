"""What the monitor knows, by HTTP: for Prometheus, for probes, and a page for people."""

from pgrepl.monitor.web.server import Server

__all__ = ["Server"]
