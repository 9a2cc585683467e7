package offload

import (
	"cmp"
	"fmt"
	"time"
)

// Two things may hang while a device is opened, and each has the same limit. Until a process is Begun its loader, or a file system, may: the process that has started it
// ends it. Then the vendor's library may: the process ends itself, see gorun-device.

// EnvOpen names the limit in the environment.
const EnvOpen = "GORUN_DEVICE_OPEN"

// usualOpen is the limit without that: the first use of a device after a start of the machine may take a minute.
const usualOpen = 2 * time.Minute

// OpenLimit returns the limit that a value of EnvOpen says; 0: there is none.
func OpenLimit(value string) (time.Duration, error) {
	d, err := time.ParseDuration(cmp.Or(value, usualOpen.String()))
	if err != nil || d < 0 {
		return usualOpen, fmt.Errorf("%s=%s is no duration, such as 30s (0: no limit)", EnvOpen, value)
	}
	return d, nil
}

// Beginning is the wait for the first word of a process.
type Beginning struct{ t *time.Timer }

// Begins has late called, with the reason, unless the process of a device and a gorun-device has
// begun within the limit. The process reports a fault in the value of EnvOpen.
func Begins(value, device, server string, pid int, late func(why string)) *Beginning {
	limit, _ := OpenLimit(value)
	if limit == 0 {
		return new(Beginning)
	}
	return &Beginning{time.AfterFunc(limit, func() {
		late(fmt.Sprintf("device %s: its offload process, pid %d, has not begun within %v: what is loaded with %s hangs, or the machine is too busy (%s=10m waits longer); %s list tries it alone",
			device, pid, limit, server, EnvOpen, server))
	})}
}

// Over ends the wait: the process has said something, or has ended.
func (b *Beginning) Over() {
	if b.t != nil {
		b.t.Stop()
	}
}
