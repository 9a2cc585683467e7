package mirror

import "time"

// Stats are times and sizes of this rank; those that end in Most are the maximum over all ranks.
type Stats struct {
	Epochs  int           // that were completed in this process
	Bytes   int64         // of this rank's image, in the last epoch
	Sent    int64         // bytes that went to other ranks: what has not changed since the last complete epoch does not
	Start   time.Duration // the last Start: what the program waited
	Send    time.Duration // from there until all was sent, behind the program
	Persist time.Duration // and then until the own image was as durable as the target is
	Whole   time.Duration // from Start until this rank knew the epoch to be whole everywhere
	Commit  time.Duration // the last Commit: what the program waited
	Restore time.Duration // the last Restore
	Made    int           // pieces that were made again from others
	Damaged int           // pieces that were found to be damaged

	StartMost, SendMost, PersistMost time.Duration
	BytesMost                        int64
}

// Stats returns the measurements.
func (d *Description) Stats() Stats {
	d.k.mu.Lock()
	defer d.k.mu.Unlock()
	return d.k.stats
}

// times is what a rank tells of an epoch.
func (s *Stats) times() []int64 {
	return []int64{int64(s.Start), int64(s.Send), int64(s.Persist), s.Bytes}
}

func (s *Stats) send(sent, persist time.Duration, bytes []int64) {
	s.Send, s.Persist, s.Sent = sent, persist, 0
	for _, n := range bytes {
		s.Sent += n
	}
}

func (s *Stats) complete(whole time.Duration, most []int64) {
	s.Epochs++
	s.Whole = whole
	if len(most) == 4 {
		s.StartMost, s.SendMost, s.PersistMost, s.BytesMost = time.Duration(most[0]), time.Duration(most[1]), time.Duration(most[2]), most[3]
	}
}
