package joblife

import "syscall"

// A whole snapshot may be useless because the state in it was wrong already, as between the loss of
// a device and the end of the program that follows. Then each restart from it ends like the one
// before. So a snapshot is passed over for an older one if several lives in a row from it have
// ended alike, by their own doing, without taking a newer one.
const mostAlike = 2

// retreat tracks the snapshots that lives began from.
type retreat struct {
	from, code int   // of the last life: its snapshot, the exit status of its end
	alike      int   // lives in a row with this from and code
	left       []int // snapshots passed over for older ones
}

// ended takes the end of a life.
func (r *retreat) ended(from int, v *Verdict) {
	if from != r.from || v.Code != r.code {
		r.alike = 0
	}
	r.from, r.code = from, v.Code
	if from == 0 || v.Rank < 0 || v.Code == SignalBase+int(syscall.SIGKILL) { // a cause from outside is not repeated by the snapshot
		r.alike = 0
		return
	}
	if r.alike++; r.alike == mostAlike {
		r.left = append(r.left, from)
	}
}
