package cpu

import "golang.org/x/sys/unix"

// memory is that of the machine, in bytes.
func memory() uint64 {
	var s unix.Sysinfo_t
	if err := unix.Sysinfo(&s); err != nil {
		return 0
	}
	return uint64(s.Totalram) * uint64(s.Unit)
}
