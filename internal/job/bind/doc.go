// Package bind says which CPUs each rank of a node may use, and binds processes to them.
//
// The kernel tells in /sys/devices/system how CPUs belong together:
//
//	cpu/online                                 0-15
//	cpu/cpu3/topology/physical_package_id      the socket
//	cpu/cpu3/topology/core_cpus_list           the CPUs of its core (thread_siblings_list before Linux 5.3)
//	node/node1/cpulist                         the CPUs of a memory node; no such folder: there is one
//
// Only CPUs that the agent itself may use count. So a cgroup's cpuset, a batch system and taskset
// are respected.
//
// # Masks
//
// Each rank of a node takes a core, by the policy of -map (package hosts):
//
//	slot, node, core    the first rank takes the first core, the next rank the next
//	socket              ranks are dealt out to the sockets in turn, on each to its cores in turn
//
// Cores are in the order of sockets, memory nodes and numbers. The unit of -bind widens that core:
//
//	core      all CPUs of the core. More ranks than cores are refused
//	socket    all CPUs of its socket
//	numa      all CPUs of its memory node
//
// For socket and numa, ranks beyond the number of cores begin with the first core again.
//
// # Who binds
//
// The agent does. A fresh rank inherits its CPUs from the thread that forks it, which takes its own
// back at once: that thread is locked to one goroutine and starts no other. So a program finds its
// CPUs from its first instruction on, and Go's GOMAXPROCS follows from them. A restored rank is
// bound before it is let go, thread by thread, except threads that the program had bound itself.
//
// Images do not keep what the agent has bound. A restart binds again, by its own options, or not at
// all.
package bind
