package procfs

import (
	"os"
	"strings"
)

// BootID names this boot of this machine.
func BootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}
