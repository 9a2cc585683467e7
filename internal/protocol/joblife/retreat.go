package joblife

import "syscall"

// A snapshot may be of no use although it is whole: what it holds was wrong already, as between the loss of a device and the end of the program that
// follows. Then each restart from it ends like the one before. So a snapshot from which so many lives in a row have ended alike, and by their own doing, with no
// newer one taken, is left for an older one.
const mostAlike = 2

// retreat is what is known of the snapshots that lives began from.
type retreat struct {
	from, code int   // of the last life: its snapshot, the exit status of its end
	alike      int   // lives in a row of which that is so
	left       []int // snapshots that are left for older ones
}

// ended takes the end of a life.
func (r *retreat) ended(from int, v *Verdict) {
	if from != r.from || v.Code != r.code {
		r.alike = 0
	}
	r.from, r.code = from, v.Code
	if from == 0 || v.Rank < 0 || v.Code == SignalBase+int(syscall.SIGKILL) { // what comes from outside will not come again for that
		r.alike = 0
		return
	}
	if r.alike++; r.alike == mostAlike {
		r.left = append(r.left, from)
	}
}
