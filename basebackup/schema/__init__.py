"""The source's schema: dumped, freed of code, classified, renamed."""
