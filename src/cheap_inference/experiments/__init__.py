"""One module a section: the measurements that its notebook asks for."""
