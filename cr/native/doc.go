// Package native images a whole process from outside: a program of Go, of C, of Go with
// cgo, or an interpreter, unmodified, at any instant, without root. It is the agent's
// code; nothing of it is linked into the programs it images.
//
// # Captures
//
// A capture stops all threads of the process, records what cannot be read from
// memory (registers, signals, descriptors), makes the process fork a copy of
// itself and lets it go on at once. The copy never runs: it closes its
// descriptors, its memory is read and written behind the program, and then it is
// ended. Copy and process are traced with PTRACE_O_EXITKILL, so that neither
// outlives the agent.
//
// # What cannot be imaged
//
// Imager.CheckProgram tells before a job starts: scripts, sanitizers, executables that
// run as another user. Capture refuses the rest, as a rule before anything is stopped. It
// names the thing and a remedy:
//
//   - child processes where ids cannot be kept, see below, and children that are traced, that have
//     folder or descriptors in common with their parent, or whose session or group has lost its
//     first process;
//   - memory shared with others. The transport's own may be, and a file that is only
//     read may be mapped shared; what no other process has is in the image, 64 MB a piece,
//     that of System V where namespaces may be made, and files that the program writes to by a
//     mapping, unless it has others open for reading and writing;
//   - timers on the time that one thread computes, unless they tell that thread, as a CPU profile has them;
//   - a user, capabilities, a seccomp filter, a root folder or namespaces other than
//     those of what the agent starts;
//   - a debugger, and a program that forbids reading its memory;
//   - descriptors that cannot be made anew: inotify with events that wait or of files whose names are not found, fanotify,
//     io_uring, pidfds of others, named pipes and pseudo-terminals with one end elsewhere, devices, another process's
//     files in /proc, leases;
//   - sockets with filters, and with what would be lost: connections that wait to be
//     accepted, descriptors that nobody else has;
//   - deleted files of more than 64 MB, huge pages.
//
// Connections with others come back closed. Listening sockets, datagram sockets and pairs
// within the process come back as they were. docs/processes.md has a table of situations.
//
// # Restores
//
// A restore starts the same executable again, stopped at its first instruction,
// replaces its whole address space by that of the image, makes the threads
// again and lets them go on.
//
// # Families
//
// A process is imaged with all that descend from it. All are stopped before the first is
// recorded, and none goes on before each has its copy. One image holds them: the state of the
// first names the others, and each has sections of its own. What several have is there
// once: pipes, files without a name, shared memory; descriptors name the first of the same open file.
// Images of a family are full, never incremental.
//
// The copy of a child cannot be a child of the agent. It is born as an orphan, so that the
// program sees neither a child nor a signal: a process between, which shares the child's memory,
// makes the copy and ends at once.
//
// A family is restored in a place of its own, see trace.Place, since parents know their children
// by their ids. What has ids that are no process's has namespaces within the place that the family has for
// itself: System V shared memory, and pseudo-terminals. Each process is made by its parent, executes its program, which has to be
// where it was, and becomes what it was. When the first has ended the place is ended, with all
// that is in it.
//
// # Run-times
//
// What gorun knows of a language is in package runtimes: where it keeps the kernel's ids
// of its threads. Go uses them to stop its threads, C libraries for much more, and as the
// owners of locks. So processes with C in them get the ids back that they had, in namespaces
// (trace.Place), where the machine permits it. Elsewhere, and for pure Go, ids are new after a
// restore. Where run-times keep them the new ones are put in their place, and into what looks
// like a held lock of glibc. That is a guess as far as locks go: robust ones, and those with
// priorities, may fail when a thread was just taking them. Restored.Note says where it was done.
// The parameter native.ids decides otherwise.
//
// # Packages
//
// All of it lies in packages below internal. Imports point down:
//
//	                native
//	          capture    restore
//	dirty     trace      vdso
//	          state      code       runtimes
//	pagemap   pages      proc       refusal    terminal
package native
