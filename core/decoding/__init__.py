"""The formats in which changes arrive, one folder for each.

``stream`` is what the receiver needs of an output plugin, ``payload`` what the replayer needs of
the rows that were written, ``formats`` the list of both.
"""
