package cli

import (
	"errors"
	"flag"
	"strconv"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/spec"
)

// durationFlag is a flag.Duration that is not negative, and whose error says that a number alone lacks a unit.
type durationFlag time.Duration

// durationVar declares such a flag with its default value.
func durationVar(fs *flag.FlagSet, p *time.Duration, name string, value time.Duration, usage string) {
	*p = value
	fs.Var((*durationFlag)(p), name, usage)
}

// deadlockFlag is -deadlock: a duration above 0, or off, which is kept as a negative one.
type deadlockFlag time.Duration

const off = "off"

func (f *deadlockFlag) String() string {
	if *f < 0 {
		return off
	}
	return time.Duration(*f).String()
}

func (f *deadlockFlag) Set(s string) error {
	if s == off {
		*f = -1
		return nil
	}
	if err := (*durationFlag)(f).Set(s); err != nil {
		return err
	}
	if *f == 0 {
		return errors.New("a duration above 0, or off")
	}
	return nil
}

// everyFlag is -ckpt-every: a duration, auto, or an interval for each of some levels.
type everyFlag struct{ o *options }

func (f everyFlag) String() string {
	if f.o == nil { // asked of a zero value
		return ""
	}
	if len(f.o.every) > 0 {
		var all []string
		for _, e := range f.o.every {
			d := e.D.String()
			if e.D == 0 {
				d = spec.EveryAuto
			}
			all = append(all, e.Name+"="+d)
		}
		return strings.Join(all, ",")
	}
	if f.o.CkptAuto {
		return spec.EveryAuto
	}
	return f.o.CkptEvery.String()
}

func (f everyFlag) Set(s string) error {
	f.o.CkptEvery, f.o.CkptAuto, f.o.every = 0, s == spec.EveryAuto, nil
	if f.o.CkptAuto {
		return nil
	}
	if strings.Contains(s, "=") {
		var err error
		f.o.every, err = spec.ParseEvery(s)
		f.o.CkptAuto = err == nil && f.o.every[0].D == 0
		return err
	}
	return (*durationFlag)(&f.o.CkptEvery).Set(s)
}

func (f *durationFlag) String() string { return time.Duration(*f).String() }

func (f *durationFlag) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil {
		example := "10"
		if _, err := strconv.ParseFloat(s, 64); err == nil {
			example = s
		}
		return errors.New("a duration has a unit, as in " + example + "s, " + example + "m or " + example + "h")
	}
	if d < 0 {
		return errors.New("a duration is not negative")
	}
	*f = durationFlag(d)
	return nil
}
