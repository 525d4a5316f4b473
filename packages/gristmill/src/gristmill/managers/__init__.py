"""One file for each resource manager: pure, argv and script text out, command output in."""
