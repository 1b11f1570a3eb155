"""What sources of records share, topics and files alike: records become changes in the spool."""
