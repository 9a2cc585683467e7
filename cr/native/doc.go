// Package native images a whole process from outside: any Go program, unmodified,
// at any instant, without root. It is the agent's code; nothing of it is linked
// into the programs it images.
//
// A capture stops all threads of the process, records what cannot be read from
// memory (registers, signals, descriptors), makes the process fork a copy of
// itself and lets it go on at once. The copy never runs: it closes its
// descriptors, its memory is read and written behind the program, and then it is
// ended. Copy and process are traced with PTRACE_O_EXITKILL, so that neither
// outlives the agent.
//
// A restore starts the same executable again, stopped at its first instruction,
// replaces its whole address space by that of the image, makes the threads anew
// and lets them go on.
package native
