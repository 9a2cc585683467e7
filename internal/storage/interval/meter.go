package interval

import "time"

// Use is the processor use of a process, all its threads together, since it was started.
type Use struct {
	Run    time.Duration // on a processor
	System time.Duration // of Run, within the kernel: for page faults, too
	Wait   time.Duration // ready to run, and no processor was free
}

// useful is the time in which the program's own instructions were executed, idle the time in which
// the same threads were kept from that.
func (u Use) useful() float64 { return max(0, (u.Run - u.System).Seconds()) }
func (u Use) idle() float64   { return (u.System + u.Wait).Seconds() }

// Phase is work beside the ranks that may slow them down.
type Phase uint8

// The phases. Those after Still cost the ranks something.
const (
	Quiet   Phase = iota // nothing
	Still                // the ranks stand, which is counted as pause
	Behind               // a checkpoint is written, and its copies and shards are made
	Copying              // a checkpoint is copied to a slower level
	Mending              // copies are made again after a loss
	phases
)

// Costs reports whether the ranks may lose something in a phase beside the time for which they stand.
func (p Phase) Costs() bool { return p > Still && p < phases }

func (p Phase) String() string {
	return [...]string{"quiet", "still", "writing", "copying", "mending"}[p]
}

// Meter measures what a rank loses while it runs and other work goes on on its node: copies are
// made, encrypted, sent, summed. That work takes processors, memory pages and caches from the
// program long after the ranks have gone on.
//
// The loss shows at the rank: its threads wait for processors, or spend time in the kernel on pages
// that they share with a copy. With U the time in which the program's own instructions were
// executed, and I that which its threads have waited for processors or spent in the kernel,
//
//	b = I/U    while nothing goes on beside: the program's own habit, its crowded node
//	k          how many threads want to run at the same time, (U + I) / span, at least 1
//
//	lost = (I - b U) / k
//
// If the rank computes without a pause, that is the time in which the program went no further: span - U (1+b)/k. Time in which it sleeps or waits
// for a message is not counted. What it loses to slower memory and caches is in U, and not seen either.
//
// Counting the processor time of the copying processes instead would be cheaper. But it says
// nothing about the rank if nodes share processors (containers, virtual machines), and nothing
// about page faults.
type Meter struct {
	quiet Use
	seen  bool
}

// Add takes the use of a rank in a span of one phase. It returns the rank's loss, and whether that
// is known: it is not before a quiet span was seen. Other spans are compared with spans of Quiet,
// of which newer ones weigh more.
func (m *Meter) Add(p Phase, u Use, span time.Duration) (lost time.Duration, known bool) {
	switch {
	case p == Quiet:
		if u.useful() > 0 {
			m.quiet = Use{m.quiet.Run/2 + u.Run, m.quiet.System/2 + u.System, m.quiet.Wait/2 + u.Wait}
			m.seen = true
		}
		return 0, m.seen
	case !p.Costs():
		return 0, m.seen
	}
	if !m.seen || span <= 0 {
		return 0, false
	}
	b := m.quiet.idle() / m.quiet.useful()
	k := max(1, (u.useful()+u.idle())/span.Seconds())
	return min(max(0, seconds((u.idle()-b*u.useful())/k)), span), true
}

// Together adds up the losses of a job's nodes in a span. Each node is slowed down at other
// instants, and ranks that wait for each other every few milliseconds go on only while all of them
// can. So the remaining share of the span is the product of the shares that each node leaves, and
// many nodes that lose a little make a job that loses much. If ranks seldom meet, the loss is less
// than this.
type Together struct {
	Span time.Duration
	gone float64 // share of the span
}

// Add adds the loss of a node's ranks.
func (t *Together) Add(lost time.Duration) {
	if t.Span > 0 {
		t.gone += (1 - t.gone) * min(1, lost.Seconds()/t.Span.Seconds())
	}
}

// Lost is the loss of the job.
func (t *Together) Lost() time.Duration { return seconds(t.gone * t.Span.Seconds()) }
