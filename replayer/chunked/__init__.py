"""Changes of a table that is copied in chunks meanwhile: which the chunks contain already."""
