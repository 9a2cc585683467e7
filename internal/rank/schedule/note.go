package schedule

// Schedule is what one rank does. The zero Schedule does nothing.
type Schedule struct {
	Rounds []Round
	Rooms  []int // lengths of the memory that it needs besides the program's
	over   bool  // the next message begins a round
}

// Round is a set of messages, then steps.
type Round struct {
	Messages []Message
	Steps    []Step
}

// Message is sent to or received from a peer.
type Message struct {
	Peer int
	Recv bool
	Span
}

// Step is done between rounds: Dst becomes a copy of Low, or the combination of Low and High, of which Low is of lower
// ranks. Dst may be either of them.
type Step struct {
	Combine        bool
	Dst, Low, High Span
}

// Reset makes a schedule that does nothing. It keeps the memory that it has.
func (s *Schedule) Reset() { s.Rounds, s.Rooms, s.over = s.Rounds[:0], s.Rooms[:0], false }

// Finish makes sure that there is a round, for callers that have to do something after the last one.
func (s *Schedule) Finish() {
	if len(s.Rounds) == 0 {
		s.begin()
	}
}

// round makes the messages that follow wait for those so far.
func (s *Schedule) round() { s.over = true }

func (s *Schedule) recv(peer int, x Span) { s.message(Message{peer, true, x}) }
func (s *Schedule) send(peer int, x Span) { s.message(Message{peer, false, x}) }

func (s *Schedule) copy(dst, src Span) {
	if dst != src && dst.Len > 0 {
		s.step(Step{Dst: dst, Low: src})
	}
}

func (s *Schedule) combine(dst, low, high Span) {
	if dst.Len > 0 {
		s.step(Step{true, dst, low, high})
	}
}

// room returns memory for k elements.
func (s *Schedule) room(k int) Span {
	s.Rooms = append(s.Rooms, k)
	return Span{Tmp + Memory(len(s.Rooms)-1), 0, k}
}

// message adds a message. Those that follow each other go at once, and wait for the steps before them.
func (s *Schedule) message(m Message) {
	if n := len(s.Rounds); n == 0 || s.over || len(s.Rounds[n-1].Steps) > 0 {
		s.begin()
	}
	r := &s.Rounds[len(s.Rounds)-1]
	r.Messages = append(r.Messages, m)
}

// step adds a step. It waits for the messages before it.
func (s *Schedule) step(x Step) {
	s.Finish()
	r := &s.Rounds[len(s.Rounds)-1]
	r.Steps = append(r.Steps, x)
}

// begin begins a round, in the memory of one that was before.
func (s *Schedule) begin() {
	n := len(s.Rounds)
	if n == cap(s.Rounds) {
		s.Rounds = append(s.Rounds, Round{})
	} else {
		s.Rounds = s.Rounds[:n+1]
	}
	r := &s.Rounds[n]
	r.Messages, r.Steps = r.Messages[:0], r.Steps[:0]
	s.over = false
}

// Map gives peers other numbers.
func (s *Schedule) Map(of func(peer int) int) {
	for _, r := range s.Rounds {
		for i := range r.Messages {
			r.Messages[i].Peer = of(r.Messages[i].Peer)
		}
	}
}
