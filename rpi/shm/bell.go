package shm

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// bell is where this rank sleeps: rpi.Waiter over the word in its control part. The zero value is
// a bell without a word, whose Wait returns at once.
type bell struct {
	waiting sync.Mutex // held in Wait
	waking  sync.Mutex // guards word against being unmapped under Wake
	word    *uint32
	early   bool // Wake was called when there was no word
	stopped atomic.Bool
	limit   unix.Timespec // scratch of Wait
	late    atomic.Bool   // Wait has lasted for as long as roundEvery
}

// open gives the bell its word.
func (b *bell) open(word *uint32) {
	b.waking.Lock()
	defer b.waking.Unlock()
	b.word = word
	if b.early {
		atomic.OrUint32(word, bellWoken)
		b.early = false
	}
	b.stopped.Store(false)
}

// shut makes Wait return and stay out. Afterwards the word may be unmapped.
func (b *bell) shut() {
	b.stopped.Store(true)
	b.Wake()
	b.waiting.Lock()
	defer b.waiting.Unlock()
	b.waking.Lock()
	defer b.waking.Unlock()
	b.word = nil
}

// arm announces that this rank is about to sleep. With room it wants to be told of room as well.
// If what is looked at afterwards changes, a wake-up follows.
func (b *bell) arm(room bool) {
	set := uint32(bellArmed)
	if room {
		set |= bellRoom
	}
	for {
		w := atomic.LoadUint32(b.word)
		if atomic.CompareAndSwapUint32(b.word, w, w&bellWoken|set) {
			return
		}
	}
}

// disarm takes arm back.
func (b *bell) disarm() { atomic.AndUint32(b.word, bellWoken) }

// Wait sleeps in the kernel until a peer has sent something, Wake is called or d is over, or
// returns earlier. It returns at once if one of them has happened since Arm, or if Arm was not
// called.
func (b *bell) Wait(d time.Duration) {
	b.waiting.Lock()
	defer b.waiting.Unlock()
	if b.stopped.Load() || b.word == nil {
		return
	}
	if w := atomic.LoadUint32(b.word); w&bellArmed != 0 && w&bellWoken == 0 {
		round := d < 0 || d > roundEvery
		if round {
			d = roundEvery
		}
		b.limit = unix.NsecToTimespec(int64(d))
		if !sleep(b.word, w, &b.limit) && round {
			b.late.Store(true)
		}
	}
	atomic.SwapUint32(b.word, 0)
}

// Wake ends Wait, or the next one.
func (b *bell) Wake() {
	b.waking.Lock()
	defer b.waking.Unlock()
	if b.word == nil {
		b.early = true
		return
	}
	if w := atomic.OrUint32(b.word, bellWoken); w&bellArmed != 0 && w&bellWoken == 0 {
		wake(b.word)
	}
}

// Yield lets other processes have the CPU, as peers are processes. runtime.Gosched would instead
// wake another thread of this process to look for work.
func (b *bell) Yield() { yield() }

// ring wakes the owner of a bell if it sleeps.
func ring(word *uint32) {
	if w := atomic.LoadUint32(word); w&bellArmed != 0 && w&bellWoken == 0 &&
		atomic.CompareAndSwapUint32(word, w, 0) {
		wake(word)
	}
}
