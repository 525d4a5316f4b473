"""Ways to run a job: on this machine (`process`), or through a resource manager."""
