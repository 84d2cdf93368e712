"""Real process deaths, lost stores, full disks and hostile bytes; every log is verified after."""
