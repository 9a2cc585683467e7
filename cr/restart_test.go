package cr_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/internal/testing/jobtest"
	"github.com/gorun-mpi/gorun/mpi"
)

// A program that does not fit its image must not come to an end that looks well,
// even if it looks at no error.
func TestMisfitFailsWhatFollows(t *testing.T) {
	images := ringImages(t)
	i, f, s := 0, 0.0, []int{}
	for name, program := range map[string]func(r *cr.Registry, c *mpi.Comm){
		"renamed": func(r *cr.Registry, c *mpi.Comm) {
			_ = errors.Join(r.Register("iter", &i), r.Register("total", &i), r.Register("trail", &s), r.Point())
		},
		"other type":      func(r *cr.Registry, c *mpi.Comm) { _ = r.Register("iter", &f) },
		"nothing claimed": func(r *cr.Registry, c *mpi.Comm) { _ = r.Point() },
	} {
		t.Run(name, func(t *testing.T) {
			misfits(t, images, func(r *cr.Registry, c *mpi.Comm) error {
				program(r, c)
				x := []int{1}
				for call, err := range map[string]error{
					"Point": r.Point(), "Send": mpi.Send(c, x, 1, 0), "Register": r.Register("another", &i),
					"Allreduce": mpi.Allreduce(c, x, []int{0}, mpi.Sum),
				} {
					if !errors.Is(err, cr.ErrMismatch) {
						t.Errorf("%s: %v", call, err)
					}
				}
				return nil
			})
		})
	}
}

// The same where it comes to no Point.
func TestMisfitWithoutAPoint(t *testing.T) {
	i := 0
	misfits(t, ringImages(t), func(r *cr.Registry, c *mpi.Comm) error { return r.Register("iter", &i) })
}

// misfits runs rank 0 of a program, which must fail at its Finalize.
func misfits(t *testing.T, images []string, program func(r *cr.Registry, c *mpi.Comm) error) {
	t.Helper()
	c := jobtest.New(2, jobtest.Options{Images: images})
	defer c.Stop()
	errs := ranks(c, func(w *mpi.Comm) error {
		if w.Rank() == 0 {
			return program(cr.On(w), w)
		}
		return errors.New("not looked at")
	})()
	if !errors.Is(errs[0], cr.ErrMismatch) || !strings.Contains(errs[0].Error(), "Finalize") {
		t.Errorf("Finalize: %v", errs[0])
	}
}

// A variable that is new in the program stays as the program has set it.
func TestNewVariable(t *testing.T) {
	images, want, sums := ringImages(t), make([]int, 2), make([]int, 2)
	c := jobtest.New(2, jobtest.Options{})
	noErrors(t, ranks(c, ring(40, want, func(int) {}))())
	c.Stop()
	c = jobtest.New(2, jobtest.Options{Images: images})
	defer c.Stop()
	noErrors(t, ranks(c, func(w *mpi.Comm) error {
		fresh := 7
		if err := cr.On(w).Register("fresh", &fresh); err != nil {
			return err
		}
		if err := ring(40, sums, func(int) {})(w); err != nil {
			return err
		}
		if fresh != 7 {
			t.Errorf("rank %d: the new variable is %d", w.Rank(), fresh)
		}
		return nil
	})())
	if sums[0] != want[0] || sums[1] != want[1] {
		t.Errorf("%v, undisturbed %v", sums, want)
	}
}
