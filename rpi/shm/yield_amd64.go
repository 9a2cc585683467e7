package shm

// yield is the system call alone: where many ranks share CPUs each finds little of its
// memory at hand when it gets its turn, and the three functions of package syscall are
// on two pages.
func yield()
