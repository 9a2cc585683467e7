// Package capture makes images of running processes.
//
//	check             refuse what can be seen from outside; nothing is disturbed
//	stop all          +
//	record            |  registers, signals, descriptors, what lies in pipes
//	scan              |  which pages have changed
//	fork              |  a copy that never runs
//	release           +  the pause is over: the program goes on
//	strip             the copy closes its descriptors
//	Write: describe   what the copy tells as well as the process did
//	       pages      read, written, given back
//	Release           the copy is ended
//
// Between stop all and release nothing is done that can be done before or after.
//
// The agent reads the copy's memory through /proc/PID/mem. The copy could be made to
// write itself, by injected system calls. That is no faster: the disk bounds both, and
// into memory both reach about 2 GB/s. And only the agent can leave out zero pages,
// compress, and sum the data that it writes.
//
// What was read is unmapped in the copy. The program's writes need not copy it any more,
// and nothing is kept twice for longer than it takes.
//
// Where no copy can be made (no memory, too many processes) the process stands still
// until its image is written. The copy's Note says so.
//
// The copy closes its descriptors at once. As long as it has them, peers do not see that the process has ended.
//
// After every error the process goes on as if nothing had been tried.
package capture
