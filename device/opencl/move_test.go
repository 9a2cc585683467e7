package opencl_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gorun-mpi/gorun/device"
	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

var forever = context.Background()

// A device that is moved again and again computes what one that stays does, whichever arrays are valid where.
func TestMovedDevicesComputeTheSame(t *testing.T) {
	dir := t.TempDir()
	d := open(t)
	ids := []string{"opencl:0", "opencl:1"}
	moves := 0
	rapid.Check(t, func(t *rapid.T) {
		a, b := device.NewArray[int64](300), device.NewArray[int64](300)
		var want [2]int64
		for _, x := range []*device.Array[int64]{a, b} { // memory is made while the device is there
			if _, err := d.Run(add, []int{300}, nil, x.InOut(), int64(0)); err != nil {
				t.Fatal(err)
			}
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			which := rapid.IntRange(0, 1).Draw(t, "array")
			x := []*device.Array[int64]{a, b}[which]
			var err error
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				var h []int64
				if h, err = x.Host(); err == nil && h[299] != want[which] {
					t.Fatalf("array %d is %d, not %d", which, h[299], want[which])
				}
			case 1:
				if moves < 10 { // processes take time to start
					moves++
					id := ids[moves%2]
					if err = d.Migrate(forever, id); err == nil && d.Info().ID != id {
						t.Fatalf("after the move it is %s", d.Info().ID)
					}
				}
			case 2:
				err = paused(d, filepath.Join(dir, "capture"), func() error {
					_, err := d.Run(add, []int{300}, nil, x.InOut(), int64(7))
					return err
				})
				want[which] += 7
			default:
				_, err = d.Run(add, []int{300}, nil, x.InOut(), int64(5))
				want[which] += 5
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for i, x := range []*device.Array[int64]{a, b} {
			if h, err := x.Host(); err != nil || h[0] != want[i] || h[299] != want[i] {
				t.Fatalf("array %d is %d, %v; want %d", i, h[0], err, want[i])
			}
		}
	})
}

// paused calls f while the device is paused and captured.
func paused(d *device.Device, path string, f func() error) error {
	if err := d.Pause(forever); err != nil {
		return err
	}
	worked := f()
	s, err := d.Capture(forever, path, false)
	if err == nil {
		err = s.Wait(forever)
	}
	return errors.Join(worked, err, d.Resume(forever))
}

// Calls go on while a device is swapped out, as far as there is room; so do waits when it is there again.
func TestSwappedOutDevice(t *testing.T) {
	d, a := open(t), device.NewArray[int64](4)
	if _, err := d.Run(add, []int{4}, nil, a.InOut(), int64(1)); err != nil {
		t.Fatal(err)
	}
	s, err := d.SwapOut(forever, filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	e, err := d.Run(add, []int{4}, nil, a.InOut(), int64(2))
	if err != nil || e.Completed() {
		t.Errorf("a kernel for nobody: %v, completed %v", err, e.Completed())
	}
	if err := d.Pause(forever); err == nil || !strings.Contains(err.Error(), "device opencl:0: pause: it is swapped out") {
		t.Errorf("another pause: %v", err)
	}
	ended, cancel := context.WithCancel(forever)
	cancel()
	if err := d.SwapIn(ended, s, "opencl:1"); !errors.Is(err, context.Canceled) {
		t.Errorf("without time: %v", err)
	}
	for _, id := range []string{"opencl:9", "cpu:0", "opencl:x"} {
		if err := d.SwapIn(forever, s, id); err == nil {
			t.Errorf("%s has taken it", id)
		}
	}
	if err := d.SwapIn(forever, s, "opencl:1"); err != nil {
		t.Fatal(err)
	}
	if h, err := a.Host(); err != nil || h[3] != 3 {
		t.Errorf("then: %v, %v", h, err)
	}
}

// A pause has a deadline, and then tells the kernel that it has waited for. The device goes on.
func TestPauseInAnEndlessKernel(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	t.Setenv("GORUN_TEST_GATE", gate)
	d := open(t)
	e, err := d.Run(kernel("gate"), []int{1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, func() string { // a pause before that is one at once
		if _, err := os.Stat(gate + "begun"); err != nil {
			return err.Error()
		}
		return ""
	})
	ctx, cancel := context.WithCancel(forever)
	cancel()
	if _, err := e.WaitContext(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "kernel gate") {
		t.Errorf("the event: %v", err)
	}
	if err := d.Pause(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "kernel gate") {
		t.Errorf("the pause: %v", err)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Wait(); err != nil {
		t.Error(err)
	}
	if err := errors.Join(d.Pause(forever), d.Resume(forever)); err != nil {
		t.Errorf("after it: %v", err)
	}
}

// A capture that cannot be written leaves a device that goes on.
func TestCaptureThatFails(t *testing.T) {
	d, a := open(t), device.NewArray[int64](4)
	if _, err := d.Run(add, []int{4}, nil, a.InOut(), int64(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.SwapOut(forever, filepath.Join(t.TempDir(), "no", "such", "folder")); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("swapped out: %v", err)
	}
	if h, err := a.Host(); err != nil || h[0] != 1 {
		t.Errorf("then: %v, %v", h, err)
	}
}

// A device that no device takes any more is lost, and whoever waits for it is told. If only the new one refuses, it stays.
func TestMoveThatFails(t *testing.T) {
	d, a := open(t), device.NewArray[int64](4)
	if _, err := d.Run(add, []int{4}, nil, a.InOut(), int64(1)); err != nil {
		t.Fatal(err)
	}
	if err := d.Migrate(forever, "opencl:7"); err == nil || errors.Is(err, device.ErrLost) {
		t.Errorf("to no device: %v", err)
	}
	if h, err := a.Host(); err != nil || h[0] != 1 {
		t.Errorf("then: %v, %v", h, err)
	}
	e, err := d.Run(add, []int{4}, nil, a.InOut(), int64(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GORUN_TEST_FULL", "1")
	if err := d.Migrate(forever, "opencl:1"); !errors.Is(err, device.ErrLost) || !strings.Contains(err.Error(), "no memory is left") {
		t.Errorf("from full to full: %v", err)
	}
	if _, err := a.Host(); !errors.Is(err, device.ErrLost) {
		t.Errorf("then: %v, %v", err, e.Completed())
	}
}

// Goroutines stay where they are.
func TestFixedDevice(t *testing.T) {
	d, err := device.Open("cpu:0")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Migrate(forever, "opencl:0"); !errors.Is(err, device.ErrFixed) {
		t.Errorf("moved: %v", err)
	}
}
