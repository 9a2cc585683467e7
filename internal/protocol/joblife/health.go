package joblife

import (
	"encoding/json"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// Reports to ranks about the health of others (mpi.Health). The head judges ranks as it judges
// agents: by answers to its pings.
//
//	head                            ranks
//	  two pings without an answer
//	  Health suspect 2,3  ------>   all but those hear it
//	  an answer, of whatever kind
//	  Health good 2,3     ------>
//	  a rank has failed, or its agent is lost
//	  Health failed 2     ------>   and the life ends

// suspectAfter is the number of unanswered pings after which the ranks of an agent are suspect, on an idle machine. It is
// less than lostAfter.
const suspectAfter = 2

// doubt tells the ranks that an agent has not answered.
func (l *life) doubt(k *link) {
	if !k.suspect && k.waited > suspectAfter+0.5 {
		k.suspect = true
		l.health(oob.HealthSuspect, k.Ranks...)
	}
}

// trust tells the ranks that an agent has answered again.
func (l *life) trust(k *link) {
	if k.suspect {
		k.suspect = false
		l.health(oob.HealthGood, k.Ranks...)
	}
}

// health tells all ranks the health of some, once all are up.
func (l *life) health(state uint64, ranks ...int) {
	if l.count[Up] < len(l.ranks) || l.ending != nil || len(ranks) == 0 || len(l.ranks) == 0 || !l.ranks[0].hears {
		return
	}
	data, _ := json.Marshal(ranks)
	l.everyone(oob.Msg{Kind: oob.Health, Incarnation: l.id, A: state, Data: data})
}
