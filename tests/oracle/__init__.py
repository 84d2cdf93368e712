"""A second implementation that judges ours: golang.org/x/mod, as packaged by Debian."""
