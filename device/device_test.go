package device_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gorun-mpi/gorun/device"
)

// step makes every element of y 3 times itself, plus the sum of x's rows above and below where x has such rows, plus c.
var step = device.NewKernel(device.Go("step", func(w device.Work, y, x []int64, row, above int32, c int64) {
	n := int(row)
	for i, end := w.Range(0); i < end; i++ {
		at := i + int(above)*n
		y[i] = 3*y[i] + x[at] + c
		if at >= n {
			y[i] += x[at-n]
		}
		if at+n < len(x) {
			y[i] += x[at+n]
		}
	}
}))

// fill sets all elements.
var fill = device.NewKernel(device.Go("fill", func(w device.Work, y []int64, c int64) {
	for i, end := w.Range(0); i < end; i++ {
		y[i] = c + int64(i)
	}
}))

func open(t testing.TB) *device.Device {
	d, err := device.Open("cpu:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// world is two arrays, as they are on devices and as they should be.
type world struct {
	ds   []*device.Device
	a    [2]*device.Array[int64]
	want [2][]int64
}

const (
	worldRows = 9
	worldRow  = 3
)

// kernel runs step or fill on random rows of a random device.
func (w *world) kernel(t *rapid.T) {
	d := w.ds[rapid.IntRange(0, len(w.ds)-1).Draw(t, "device")]
	from := rapid.IntRange(0, worldRows).Draw(t, "from")
	to := rapid.IntRange(from, worldRows).Draw(t, "to")
	dst := rapid.IntRange(0, 1).Draw(t, "dst")
	c := rapid.Int64Range(-5, 5).Draw(t, "c")
	y, want := w.a[dst].Rows(from, to), w.want[dst][from*worldRow:to*worldRow]
	items := []int{len(want)}
	var err error
	if rapid.Bool().Draw(t, "fill") {
		_, err = d.Run(fill, items, nil, y.Out(), c)
		for i := range want {
			want[i] = c + int64(i)
		}
	} else {
		above := min(1, from)
		lo, hi := from-above, min(to+1, worldRows)
		x, all := w.a[1-dst].Rows(lo, hi), w.want[1-dst][lo*worldRow:hi*worldRow]
		if rapid.Bool().Draw(t, "early") {
			err = d.Fetch(x.In())
		}
		_, rerr := d.Run(step, items, nil, y.InOut(), x.In(), worldRow, above, c)
		err = errors.Join(err, rerr)
		for i := range want {
			at := i + above*worldRow
			want[i] = 3*want[i] + all[at] + c
			if at >= worldRow {
				want[i] += all[at-worldRow]
			}
			if at+worldRow < len(all) {
				want[i] += all[at+worldRow]
			}
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// host reads and writes random rows.
func (w *world) host(t *rapid.T) {
	from := rapid.IntRange(0, worldRows).Draw(t, "from")
	to := rapid.IntRange(from, worldRows).Draw(t, "to")
	which := rapid.IntRange(0, 1).Draw(t, "array")
	part, want := w.a[which].Rows(from, to), w.want[which][from*worldRow:to*worldRow]
	get := part.Host
	write := rapid.Bool().Draw(t, "write")
	if write {
		get = part.HostW
	}
	got, err := get()
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("rows %d to %d of %d: %v %v, want %v", from, to, which, got, err, want)
	}
	for i := range got {
		if write {
			got[i] -= int64(i)
			want[i] -= int64(i)
		}
	}
}

// Whatever is done with arrays on whichever devices, they hold what plain slices would.
func TestArraysOnDevicesAreArrays(t *testing.T) {
	vs, err := device.Virtual(2)
	if err != nil {
		t.Fatal(err)
	}
	defer vs.Close()
	ds := append([]*device.Device{open(t), open(t)}, vs...) // three drivers, one of them with two
	rapid.Check(t, func(t *rapid.T) {
		w := &world{ds: ds}
		for i := range w.a {
			w.a[i] = device.NewArray[int64](worldRows, worldRow)
			w.want[i] = make([]int64, worldRows*worldRow)
		}
		t.Repeat(map[string]func(*rapid.T){
			"kernel": w.kernel, "kernel again": w.kernel, "host": w.host,
			"evict": func(t *rapid.T) {
				if err := w.a[0].Evict(); err != nil {
					t.Fatal(err)
				}
			},
			"": func(t *rapid.T) {},
		})
		for i, a := range w.a {
			if got, err := a.Host(); err != nil || fmt.Sprint(got) != fmt.Sprint(w.want[i]) {
				t.Fatalf("array %d: %v %v, want %v", i, got, err, w.want[i])
			}
		}
	})
}

// Nothing moves but what is stale where it is needed.
func TestOnlyStaleRowsMove(t *testing.T) {
	d := open(t)
	a := device.NewArray[int64](10, 8) // a row has 64 bytes
	expect := func(what string, sent, fetched uint64) {
		t.Helper()
		if s := d.Stats(); s.Sent != 64*sent || s.Fetched != 64*fetched {
			t.Errorf("%s: %d bytes sent, %d fetched; want rows %d and %d", what, s.Sent, s.Fetched, sent, fetched)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := d.Run(fill, []int{80}, nil, a.Out(), 1)
	must(err)
	expect("written", 0, 0)
	_, err = a.Rows(2, 4).Host()
	must(err)
	expect("two rows", 0, 2)
	_, err = a.Host()
	must(err)
	_, err = a.Host()
	must(err)
	expect("all, twice", 0, 10)
	must(d.Fetch(a.In()))
	expect("valid on both", 0, 10)
	_, err = a.Rows(0, 1).HostW()
	must(err)
	must(d.Fetch(a.In()))
	expect("a row written", 1, 10)
	must(d.Fetch(a.Rows(5, 7).In()))
	expect("another part on the same device", 1, 10)
}

func TestWrongArguments(t *testing.T) {
	d := open(t)
	a, f := device.NewArray[int64](4, 2), device.NewArray[float64](4)
	cl := device.NewKernel(device.OpenCL("scale", "kernel void scale(global long *a) {}"))
	halve := device.NewKernel(device.Go("halve", func(w device.Work, y []float64, by float32) {}))
	for name, try := range map[string]struct {
		says string
		run  func() (device.Event, error)
	}{
		"too few":    {"takes 2", func() (device.Event, error) { return d.Run(fill, []int{8}, nil, a.Out()) }},
		"type":       {"argument 0: it is an array of float64, the kernel takes a []int64", func() (device.Event, error) { return d.Run(fill, []int{8}, nil, f.Out(), 1) }},
		"a fraction": {"argument 1: 1.5 (float64) is no int64", func() (device.Event, error) { return d.Run(fill, []int{8}, nil, a.Out(), 1.5) }},
		"infinite":   {"argument 1: 1e+300 (float64) is no float32", func() (device.Event, error) { return d.Run(halve, []int{4}, nil, f.Out(), 1e300) }},
		"2^63":       {"argument 1: 9.223372036854776e+18 (float64) is no int64", func() (device.Event, error) { return d.Run(fill, []int{8}, nil, a.Out(), 0x1p63) }},
		"too many":   {"27 arguments; a kernel takes at most 26", func() (device.Event, error) { return d.Run(cl, []int{8}, nil, make([]any, 27)...) }},
		"too large":  {"is no int32", func() (device.Event, error) { return d.Run(step, []int{8}, nil, a.Out(), a.In(), 1<<40, 0, 0) }},
		"an array":   {"In, Out or InOut", func() (device.Event, error) { return d.Run(fill, []int{8}, nil, a, 1) }},
		"twice": {"arguments 0 and 1 have 1 row(s) of one array in common", func() (device.Event, error) {
			return d.Run(step, []int{4}, nil, a.Rows(0, 2).Out(), a.Rows(1, 4).In(), 2, 0, 0)
		}},
		"dimensions":   {"0 dimensions", func() (device.Event, error) { return d.Run(fill, nil, nil, a.Out(), 1) }},
		"groups":       {"no whole number of groups", func() (device.Event, error) { return d.Run(fill, []int{8}, []int{3}, a.Out(), 1) }},
		"no Use":       {"made by In, Out or InOut", func() (device.Event, error) { return d.Run(fill, []int{8}, nil, device.Use{}, 1) }},
		"no Fetch":     {"made by In, Out or InOut", func() (device.Event, error) { return device.Event{}, d.Fetch(device.Use{}) }},
		"no memory":    {"local memory of 0 elements", func() (device.Event, error) { return d.Run(fill, []int{8}, nil, device.Local[int64](0), 1) }},
		"no Local":     {"Local makes it", func() (device.Event, error) { return d.Run(fill, []int{8}, nil, device.Shared{}, 1) }},
		"another body": {"device.Go", func() (device.Event, error) { return d.Run(cl, []int{8}, nil, a.InOut()) }},
		"int":          {"int32 or int64", func() (device.Event, error) { return d.Run(cl, []int{8}, nil, a.InOut(), 1) }},
	} {
		_, err := try.run()
		if err == nil || !strings.Contains(err.Error(), try.says) || !strings.Contains(err.Error(), "device cpu:0: ") {
			t.Errorf("%s: %v, which does not say %q", name, err, try.says)
		}
		if name != "another body" && !errors.Is(err, device.ErrArgument) || name == "another body" && !errors.Is(err, device.ErrNoBody) {
			t.Errorf("%s: the class of %v", name, err)
		}
	}
	if got, err := a.Host(); err != nil || got[0] != 0 {
		t.Errorf("after all that: %v, %v", got, err)
	}
}

// Two bodies for one kind of device would leave open which parameters the kernel has.
func TestTwoBodies(t *testing.T) {
	defer func() {
		if v := recover(); v != "device.NewKernel: one has two bodies for go" {
			t.Errorf("it panics with %v", v)
		}
	}()
	device.NewKernel(device.Go("one", func(device.Work, []int64) {}), device.Go("two", func(device.Work, []float32) {}))
}

// A body that ends its goroutine has failed.
func TestKernelEndsItsGoroutine(t *testing.T) {
	d := open(t)
	for _, items := range []int{1, 100} {
		e, err := d.Run(device.NewKernel(device.Go("leaving", func(device.Work) { runtime.Goexit() })), []int{items}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Wait(); !errors.Is(err, device.ErrKernel) || !strings.Contains(err.Error(), "kernel leaving") || !strings.Contains(err.Error(), "Goexit") {
			t.Errorf("%d items: %v", items, err)
		}
		d = open(t)
	}
}

// Sizes that no memory has are refused, not cut.
func TestArrayTooLarge(t *testing.T) {
	for _, dims := range [][]int{{1 << 32, 1 << 32}, {1 << 62, 4}, {1 << 61}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("there is an array of %v", dims)
				}
			}()
			device.NewArray[int64](dims...)
		}()
	}
}

// A kernel that fails stops its device and names itself; what is valid elsewhere is still of use.
func TestAKernelFails(t *testing.T) {
	d, other := open(t), open(t)
	a, b := device.NewArray[int64](4), device.NewArray[int64](4)
	bad := device.NewKernel(device.Go("bad", func(w device.Work, y []int64) { y[len(y)+w.From[0]] = 1 }))
	before, err := d.Run(fill, []int{4}, nil, b.Out(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Host(); err != nil {
		t.Fatal(err)
	}
	e, err := d.Run(bad, []int{4}, nil, a.Out())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Wait(); !errors.Is(err, device.ErrKernel) || !strings.Contains(err.Error(), "kernel bad") || !strings.Contains(err.Error(), "index out of range") {
		t.Errorf("the event ended with %v", err)
	}
	if _, err := a.Host(); !errors.Is(err, device.ErrKernel) {
		t.Errorf("its array: %v", err)
	}
	if _, err := before.Wait(); err != nil {
		t.Errorf("the kernel before it: %v", err)
	}
	if _, err := other.Run(step, []int{4}, nil, b.InOut(), device.NewArray[int64](4).In(), 1, 0, 0); err != nil {
		t.Errorf("another device: %v", err)
	}
	if got, err := b.Host(); err != nil || got[3] != 12 {
		t.Errorf("on another device: %v, %v", got, err)
	}
}

func TestWaitsEnd(t *testing.T) {
	d := open(t)
	release := make(chan struct{})
	wait := device.NewKernel(device.Go("wait", func(device.Work) { <-release }))
	e, err := d.Run(wait, []int{1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := e.WaitContext(ctx); !errors.Is(err, context.Canceled) || e.Completed() {
		t.Errorf("a wait that was given up: %v; completed %v", err, e.Completed())
	}
	close(release)
	<-e.Done()
	times, err := e.Wait()
	if err != nil || !e.Completed() || times.End.Before(times.Start) || times.Start.IsZero() {
		t.Errorf("then: %v, %v", times, err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, err := d.Run(wait, []int{1}, nil); !errors.Is(err, device.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// A body sees each item once, whatever the sizes are.
func TestEveryItemOnce(t *testing.T) {
	d := open(t)
	count := device.NewKernel(device.Go("count", func(w device.Work, y []int32) {
		for k := w.From[2]; k < w.To[2]; k++ {
			for j := w.From[1]; j < w.To[1]; j++ {
				for i := w.From[0]; i < w.To[0]; i++ {
					y[(k*w.Global[1]+j)*w.Global[0]+i]++
				}
			}
		}
	}))
	rapid.Check(t, func(t *rapid.T) {
		var global, local []int
		n := 1
		for range rapid.IntRange(1, 3).Draw(t, "dims") {
			g, l := rapid.IntRange(0, 12).Draw(t, "groups"), rapid.IntRange(1, 4).Draw(t, "group")
			global, local = append(global, g*l), append(local, l)
			n *= g * l
		}
		y := device.NewArray[int32](n)
		if _, err := d.Run(count, global, local, y.InOut()); err != nil {
			t.Fatal(err)
		}
		got, err := y.Host()
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range got {
			if c != 1 {
				t.Fatalf("%v in groups of %v: item %d was computed %d times", global, local, i, c)
			}
		}
	})
}

// plus adds to every element.
var plus = device.NewKernel(device.Go("plus", func(w device.Work, y []int64, c int64) {
	for i, end := w.Range(0); i < end; i++ {
		y[i] += c
	}
}))

// TestArrayInUseByTwo has goroutines use one array at the same time: kernels on two devices, and the host. Each call sees
// the array as it is between two others, so nothing is lost, or done twice.
func TestArrayInUseByTwo(t *testing.T) {
	const goroutines, times, n = 4, 50, 1000
	ds := []*device.Device{open(t), open(t)}
	a := device.NewArray[int64](n)
	errs := make(chan error, 2*goroutines)
	for g := range goroutines {
		go func() {
			for i := range times {
				if _, err := ds[(g+i)%2].Run(plus, []int{n}, nil, a.InOut(), int64(1)); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
		go func() {
			for range times {
				if _, err := a.Host(); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range 2 * goroutines {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	h, err := a.Host()
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range h {
		if v != goroutines*times {
			t.Fatalf("element %d is %d, not %d", i, v, goroutines*times)
		}
	}
}
