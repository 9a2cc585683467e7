// Package restore makes processes of images.
//
//	prepare      read the image and those it builds on; open the files
//	exec         start the same executable, stopped at its first instruction
//	take over    learn its layout, give it memory from which it makes our calls
//	build        it empties its address space, maps the regions, starts the threads
//	fill         the pages are written
//	awaken       each thread does what only it can do for itself
//	             the process stands: no file was changed yet
//	Go           output files are cut, registers set, threads let go
//
// After every error, and after End, nothing is left of the process.
package restore
