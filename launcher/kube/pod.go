// Package kube runs a job in the pods of a Kubernetes Indexed Job. All pods run the same command
// line. The one of index 0 is the head, and a node as well. In every other gorun is a keeper that
// calls home until the head answers, whichever of them is there first.
//
//	pod heat-0: gorun -np 16 ./heat           head, agent 0, ranks 0..3
//	   ▲  ▲  ▲   heat-0.heat:7770, TLS, both sides prove that they know the Secret
//	   │  │  └── pod heat-1: gorun -np 16 ./heat     keeper of node 1, agent 1, ranks 4..7
//	   │  └───── pod heat-2
//	   └──────── pod heat-3
//
// Kubernetes starts the pods, so nobody hands out tickets: every pod makes its own from a Secret
// that all have (rendezvous.Derive). What a pod is to know is in its environment:
//
//	JOB_COMPLETION_INDEX  which pod this is; Kubernetes sets it
//	GORUN_HEAD            where the head is: <job>-0.<service>, and :port if that is not 7770
//	GORUN_NODES           how many pods there are
//	GORUN_SLOTS           how many ranks each has room for; without it, one for each CPU
//	GORUN_TOKEN_FILE      the file with the Secret, at least 32 bytes
//	GORUN_TOKEN           the Secret itself, where it cannot be a file: every user who may see the pod sees it
//
// Without GORUN_HEAD a pod is a machine of its own. Two Secrets, or none, are refused.
//
// # Lives of pods
//
// A keeper that has lost its head calls again: the pod that replaces pod 0 finds the others
// waiting. A keeper ends, with status 0, when the job has ended well. A pod that replaces another
// calls as the same node. The head lets it in when the old one is fenced. If two pods live at the
// same time, one of them on a node that the cluster does not hear: the lease of one is over before
// the other has one.
package kube

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/gorun-mpi/gorun/internal/job/hosts"
	"github.com/gorun-mpi/gorun/internal/protocol/rendezvous"
)

// DefaultPort is where the head listens.
const DefaultPort = 7770

// Most pods and slots that are believed.
const most = 1 << 16

// Errors of FromEnv.
var (
	ErrSecret = errors.New("kube: the pods need a Secret in common: mount one, with at least 32 bytes, and name its file in GORUN_TOKEN_FILE")
	ErrPod    = errors.New("kube: the pod's environment")
)

// Pod is what the environment of a pod tells.
type Pod struct {
	Index  int
	Nodes  int
	Slots  int    // 0: one for each CPU
	Head   string // host name of pod 0 within the cluster
	Port   int
	Source string // where the Secret comes from, for people

	secret []byte
}

// FromEnv reads the environment of this process. It returns nil if that is not a pod whose job has
// several.
func FromEnv(getenv func(string) string) (*Pod, error) {
	head := getenv("GORUN_HEAD")
	if head == "" {
		return nil, nil
	}
	p := &Pod{Head: head, Port: DefaultPort}
	if host, port, err := net.SplitHostPort(head); err == nil {
		p.Head = host
		if p.Port, err = number("the port of GORUN_HEAD", port, 1, 65535); err != nil {
			return nil, err
		}
	}
	if p.jobName() == "" {
		return nil, fmt.Errorf("%w: GORUN_HEAD=%s: the head is the pod of index 0, <job>-0.<service>", ErrPod, head)
	}
	var err error
	if p.Nodes, err = number("GORUN_NODES", getenv("GORUN_NODES"), 1, most); err != nil {
		return nil, err
	}
	if p.Index, err = number("JOB_COMPLETION_INDEX", getenv("JOB_COMPLETION_INDEX"), 0, p.Nodes-1); err != nil {
		return nil, err
	}
	if s := getenv("GORUN_SLOTS"); s != "" {
		if p.Slots, err = number("GORUN_SLOTS", s, 1, most); err != nil {
			return nil, err
		}
	}
	p.secret, p.Source, err = secret(getenv)
	return p, err
}

// number reads one from least to most.
func number(name, text string, least, most int) (int, error) {
	n, err := strconv.Atoi(text)
	switch {
	case text == "":
		return 0, fmt.Errorf("%w: %s is not set", ErrPod, name)
	case err != nil || n < least || n > most:
		return 0, fmt.Errorf("%w: %s is %q: a number from %d to %d is wanted", ErrPod, name, text, least, most)
	}
	return n, nil
}

// secret finds the Secret, in one of its two places.
func secret(getenv func(string) string) (key []byte, source string, err error) {
	file, text := getenv("GORUN_TOKEN_FILE"), getenv("GORUN_TOKEN")
	switch {
	case file != "" && text != "":
		return nil, "", fmt.Errorf("%w: there are two, GORUN_TOKEN is set as well", ErrSecret)
	case file != "":
		source = "file " + file
		if key, err = os.ReadFile(file); err != nil {
			return nil, "", fmt.Errorf("%w: %w", ErrSecret, err)
		}
	case text != "":
		source, key = "the environment, GORUN_TOKEN", []byte(text)
	default:
		return nil, "", ErrSecret
	}
	key = []byte(strings.TrimRight(string(key), "\r\n"))
	if len(key) < rendezvous.MinSecret {
		return nil, "", fmt.Errorf("%w: that of %s has %d", ErrSecret, source, len(key))
	}
	return key, source, nil
}

// jobName is the name of the Job, which its pods' names begin with.
func (p *Pod) jobName() string {
	first, _, _ := strings.Cut(p.Head, ".")
	name, ok := strings.CutSuffix(first, "-0")
	if !ok {
		return ""
	}
	return name
}

// Name is the name of a pod.
func (p *Pod) Name(index int) string { return fmt.Sprintf("%s-%d", p.jobName(), index) }

// Hosts are the pods as nodes of a job.
func (p *Pod) Hosts() []hosts.Node {
	nodes := make([]hosts.Node, p.Nodes)
	for i := range nodes {
		nodes[i] = hosts.Node{Name: p.Name(i), Slots: p.Slots, SlotsGiven: p.Slots > 0}
	}
	return nodes
}

// realm is what the home's Job is called, in all pods alike. Pods of other Jobs that share the
// Secret are strangers.
func (p *Pod) realm() string { return p.Head }

// Home is how the head listens.
func (p *Pod) Home() rendezvous.Config {
	return rendezvous.Config{Job: p.realm(), Port: p.Port, Secret: p.secret, Addresses: []string{p.Head}}
}

// Ticket is that of this pod's keeper.
func (p *Pod) Ticket() (rendezvous.Ticket, error) {
	return rendezvous.Derive(p.secret, p.realm(), []string{net.JoinHostPort(p.Head, strconv.Itoa(p.Port))}, p.Index, rendezvous.Keeper, 0)
}

// String describes the pod without the Secret.
func (p *Pod) String() string {
	return fmt.Sprintf("pod %d of %d, head at %s", p.Index, p.Nodes, net.JoinHostPort(p.Head, strconv.Itoa(p.Port)))
}

// GoString is String, so that no verb prints the Secret.
func (p *Pod) GoString() string { return p.String() }
