"""Who runs and who restarts whom: supervisor and worker, standard library only until the worker is up."""
