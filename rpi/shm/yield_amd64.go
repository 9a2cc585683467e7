package shm

// yield is the system call and nothing else. Where many ranks share CPUs, each finds little of its
// memory in the cache when it runs again, and the three functions of package syscall are on two
// pages.
func yield()
