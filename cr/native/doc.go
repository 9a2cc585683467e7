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
// The agent reads the copy's memory through /proc/PID/mem. The copy could be made
// to write itself, by injected system calls, but that is no faster (the disk
// bounds both; into memory both reach about 2 GB/s), and only the agent can leave
// out pages that are zero, compress, and sum up what it writes. What was read is
// unmapped in the copy, so that the program's writes need not copy it any more
// and nothing is kept twice for longer than it takes.
//
// Where no copy can be made (no memory, too many processes) the process stands
// still until its image is written; whole.Copy.Note says so.
//
// # What cannot be imaged
//
// Imager.CheckProgram tells before a job starts: cgo, race and other sanitizers, programs
// that are not Go's. Capture refuses, as a rule before anything is stopped, and
// names the thing and a remedy: child processes, memory shared with others (the
// transport's own may be, and a file that is only read may be mapped shared), POSIX
// and interval timers, as a CPU profile has them, a user, capabilities, a seccomp
// filter, a root folder or namespaces other than those of what the agent starts, a
// debugger, a program that forbids reading its memory, descriptors that cannot be
// made anew (inotify, signalfd, io_uring, pidfd, named pipes, devices, another
// process's files in /proc), deleted files of more than 64 MB, a deleted working
// directory, huge pages. Connections of the program's own come back closed.
//
// After every error the process goes on as if nothing had been tried.
//
// # Restores
//
// A restore starts the same executable again, stopped at its first instruction,
// replaces its whole address space by that of the image, makes the threads anew
// and lets them go on.
package native
