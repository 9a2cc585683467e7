//go:build amd64

package native

import (
	"testing"
	"time"
)

func newTracer(t testing.TB) *Tracer {
	tr := NewTracer(2)
	t.Cleanup(tr.Close)
	return tr
}

func TestCapture(t *testing.T) {
	tr := newTracer(t)
	v := newVictim(t, tr, "spin", "churn", "16")
	for range 5 {
		start := time.Now()
		c, err := v.target.Capture(CaptureOptions{Seq: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("pause %v, all %v, %d bytes", c.Pause(), time.Since(start), c.Bytes())
		v.works()
		start = time.Now()
		s, r := v.write(c)
		t.Logf("write %v, %d threads, image %d, actions %d, mm %+v, vdso %+v, host %+v", time.Since(start), len(s.Threads), r.Size(), len(s.Actions), s.MM, s.VDSO, s.Host.XSave)
		v.works()
	}
}
