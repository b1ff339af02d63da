"""Pools as a resource of Kubernetes: python -m nearkv.kubernetes, a device plug-in of kubelet's."""
