package shm

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// bell is where this rank sleeps: rpi.Waiter over the word in its control part.
// The zero value is a bell without a word: Wait returns at once.
type bell struct {
	waiting sync.Mutex // held in Wait
	waking  sync.Mutex // guards word against being unmapped under Wake
	word    *uint32
	early   bool // a Wake that found no word
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

// arm announces that this rank is about to sleep; room says that it then also
// wants to be told of room. Whatever is looked at afterwards will be followed by
// a wake-up if it changes.
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

// disarm takes that back.
func (b *bell) disarm() { atomic.AndUint32(b.word, bellWoken) }

// Wait is rpi.Waiter's: it sleeps in the kernel until a peer has sent something,
// Wake is called or d is over, or returns earlier. It returns at once if that has
// happened since Arm, or if Arm was not called.
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

// Wake is rpi.Waiter's.
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

// Yield is rpi.Waiter's: peers are processes. runtime.Gosched would not give
// them the CPU, but wake another thread of this process to look for work.
func (b *bell) Yield() { yield() }

// ring wakes the owner of a bell that sleeps.
func ring(word *uint32) {
	if w := atomic.LoadUint32(word); w&bellArmed != 0 && w&bellWoken == 0 &&
		atomic.CompareAndSwapUint32(word, w, 0) {
		wake(word)
	}
}
