// Package native images a whole process from outside: any Go program, unmodified,
// at any instant, without root. It is the agent's code; nothing of it is linked
// into the programs it images.
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
// Imager.CheckProgram tells before a job starts: cgo, race and other sanitizers, programs
// that are not Go's. Capture refuses the rest, as a rule before anything is stopped. It
// names the thing and a remedy:
//
//   - child processes;
//   - memory shared with others. The transport's own may be, and a file that is only
//     read may be mapped shared;
//   - POSIX and interval timers, as a CPU profile has them;
//   - a user, capabilities, a seccomp filter, a root folder or namespaces other than
//     those of what the agent starts;
//   - a debugger, and a program that forbids reading its memory;
//   - descriptors that cannot be made anew: inotify, signalfd, io_uring, pidfd, named
//     pipes, devices, another process's files in /proc;
//   - deleted files of more than 64 MB, a deleted working directory, huge pages.
//
// Connections of the program's own come back closed.
//
// # Restores
//
// A restore starts the same executable again, stopped at its first instruction,
// replaces its whole address space by that of the image, makes the threads anew
// and lets them go on.
//
// # Packages
//
// All of it lies in packages below internal. Imports point down:
//
//	                native
//	          capture    restore
//	dirty     trace      vdso
//	          state      code       goruntime
//	pagemap   pages      proc       refusal
package native
