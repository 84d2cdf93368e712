"""The whole product as a user meets it: commands, processes, files."""
