package alive

import (
	"os/exec"
	"testing"
)

func TestState(t *testing.T) {
	this := This()
	if this.State() != Lives {
		t.Errorf("this process, %+v: %v", this, this.State())
	}
	for _, p := range []Process{{}, {PID: this.PID}, {PID: this.PID, Start: this.Start}, {PID: this.PID, Start: this.Start, Machine: this.Machine + "x"}} {
		if p.State() != Elsewhere {
			t.Errorf("%+v: %v", p, p.State())
		}
	}
	if former := (Process{this.PID, this.Start - 1, this.Machine}); former.State() != Dead {
		t.Error("a process that had the same id before:", former.State())
	}
	child := exec.Command("cat")
	in, err := child.StdinPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	start, ok := begun(child.Process.Pid)
	p := Process{child.Process.Pid, start, this.Machine}
	if !ok || p.State() != Lives {
		t.Errorf("a child: %v", p.State())
	}
	in.Close()
	child.Wait()
	if p.State() != Dead {
		t.Errorf("a child that has ended: %v", p.State())
	}
}
