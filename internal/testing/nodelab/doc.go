// Package nodelab gives tests a small cluster on one machine: nodes that lose power or
// their network, stand still, come back, or are far away.
//
//	lab := nodelab.Up(t, 4)
//	lab.Exec("n1", "ssh", "n2", "hostname")
//	lab.Kill("n2")
//
// A node is a tree of processes with namespaces of its own: network, host name,
// processes, mounts (/tmp, /run, /dev/shm, Local), System V IPC, clocks that are hours
// apart. Its boot id is another with every start. Everything else of the file system is
// common to all, so Shared is what a shared file system is on a cluster. Each node runs an
// sshd; ssh asks for nothing, as root or as user "worker". All share CPUs and memory.
//
//	n1      n2      n3            links into a bridge, itself in a namespace
//	 |       |       |            10.77.0.N, fd77::N; 10.78.0.N with a second network
//	-+-------+-------+-           all names resolve: n2, n2-6 (IPv6), n2-1 (second network)
//
// Two scripts do it, for use by hand as well: node-lab.sh, and slurm-lab.sh, which runs a
// Slurm on the nodes. They say what they can do without an argument.
//
// Nothing of the machine is changed: a lab is in its namespaces, in a folder of its own
// and, where there are cgroups, in one of these. Several labs may be up at once. A lab goes
// down with its test, however that ends: a process of the lab waits for it.
//
// Tests are skipped, with the reason, where somebody is not root, packages are missing, or
// the kernel refuses namespaces. In continuous integration (CI=true) missing packages fail
// them.
package nodelab
