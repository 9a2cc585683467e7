package s3test

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Credentials that the server knows.
const (
	KeyID  = "AKIDTEST"
	Secret = "secret/of+the test"
	Region = "us-east-1"
	Bucket = "snapshots"
)

// Getenv is an environment with the credentials and the address.
func (s *Server) Getenv(name string) string {
	return map[string]string{"AWS_ACCESS_KEY_ID": KeyID, "AWS_SECRET_ACCESS_KEY": Secret, "AWS_ENDPOINT_URL": s.URL, "AWS_REGION": Region}[name]
}

// minPart is the least size of a part that is not the last.
const minPart = 5 << 20

// Server is an object store in memory.
type Server struct {
	URL string

	// Fault, if not nil, sees each request before it is served, and wraps it: it may answer itself, cut the answer, or
	// serve it and lose the answer.
	Fault func(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter, *http.Request))
	Page  int // entries of a list's page

	mu      sync.Mutex
	objects map[string]*object
	uploads map[string]*upload
	last    int
	asked   map[string]int
}

type object struct {
	data []byte
	etag string
	meta http.Header
}

type upload struct {
	key   string
	meta  http.Header
	parts map[int]*object
}

// New starts a server, which ends with the test.
func New(t testing.TB) *Server {
	s := &Server{Page: 3, objects: map[string]*object{}, uploads: map[string]*upload{}, asked: map[string]int{}}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		fault := s.Fault
		s.mu.Unlock()
		if fault != nil {
			fault(w, r, s.serve)
			return
		}
		s.serve(w, r)
	}))
	t.Cleanup(h.Close)
	s.URL = h.URL
	return s
}

// Break sets the Fault.
func (s *Server) Break(f func(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter, *http.Request))) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Fault = f
}

// Keys lists all objects.
func (s *Server) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys()
}

func (s *Server) keys() []string {
	var all []string
	for k := range s.objects {
		all = append(all, k)
	}
	sort.Strings(all)
	return all
}

// Data is the content of an object, nil if it is not there. Changing it changes the object.
func (s *Server) Data(key string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.objects[key]; o != nil {
		return o.data
	}
	return nil
}

// Uploads is how many uploads are unfinished.
func (s *Server) Uploads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.uploads)
}

// Asked is how many requests of a kind were served: "GET", "PUT", "HEAD", "POST", "DELETE".
func (s *Server) Asked(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[method]
}

// Refuse answers with an error of the protocol.
func Refuse(w http.ResponseWriter, status int, code, text string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<?xml version=\"1.0\"?><Error><Code>%s</Code><Message>%s</Message></Error>", code, text)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	if code, err := verify(r, body); err != nil {
		status := http.StatusForbidden
		if code == codeBody {
			status = http.StatusBadRequest
		}
		Refuse(w, status, code, err.Error())
		return
	}
	if want := r.Header.Get("X-Amz-Checksum-Crc32c"); want != "" && want != crc(body) {
		Refuse(w, http.StatusBadRequest, "BadDigest", "the CRC32C does not fit what has arrived")
		return
	}
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if bucket != Bucket {
		Refuse(w, http.StatusNotFound, "NoSuchBucket", bucket)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[r.Method]++
	q := r.URL.Query()
	switch {
	case key == "" && r.Method == "GET" && q.Has("uploads"):
		s.listUploads(w, q.Get("prefix"))
	case key == "" && r.Method == "GET":
		s.list(w, q.Get("prefix"), q.Get("delimiter"), q.Get("continuation-token"))
	case key == "" && r.Method == "POST" && q.Has("delete"):
		s.deleteAll(w, body)
	case r.Method == "POST" && q.Has("uploads"):
		s.begin(w, r, key)
	case r.Method == "POST" && q.Has("uploadId"):
		s.complete(w, r, key, q.Get("uploadId"), body)
	case r.Method == "PUT" && q.Has("uploadId"):
		s.part(w, key, q.Get("uploadId"), q.Get("partNumber"), body)
	case r.Method == "DELETE" && q.Has("uploadId"):
		s.abort(w, q.Get("uploadId"))
	case r.Method == "PUT":
		s.put(w, r, key, body)
	case r.Method == "GET", r.Method == "HEAD":
		s.get(w, r, key)
	case r.Method == "DELETE":
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
	default:
		Refuse(w, http.StatusNotImplemented, "NotImplemented", r.Method+" "+r.URL.String())
	}
}

func crc(p []byte) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.Checksum(p, crc32.MakeTable(crc32.Castagnoli))))
}

func newObject(p []byte, meta http.Header) *object {
	sum := md5.Sum(p)
	return &object{p, hex.EncodeToString(sum[:]), meta}
}

// meta is what is kept of a request's headers.
func meta(r *http.Request) http.Header {
	m := http.Header{}
	for k, v := range r.Header {
		if strings.HasPrefix(k, "X-Amz-Meta-") {
			m[k] = v
		}
	}
	return m
}

// allowed checks the conditions of a write.
func (s *Server) allowed(w http.ResponseWriter, r *http.Request, key string) bool {
	o := s.objects[key]
	switch none, match := r.Header.Get("If-None-Match"), strings.Trim(r.Header.Get("If-Match"), `"`); {
	case none == "*" && o != nil, match != "" && o != nil && match != o.etag:
		Refuse(w, http.StatusPreconditionFailed, "PreconditionFailed", key)
		return false
	case match != "" && o == nil:
		Refuse(w, http.StatusNotFound, "NoSuchKey", key)
		return false
	}
	return true
}

func (s *Server) put(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	if !s.allowed(w, r, key) {
		return
	}
	o := newObject(body, meta(r))
	s.objects[key] = o
	w.Header().Set("ETag", `"`+o.etag+`"`)
}

func (s *Server) begin(w http.ResponseWriter, r *http.Request, key string) {
	s.last++
	id := "upload-" + strconv.Itoa(s.last)
	s.uploads[id] = &upload{key, meta(r), map[int]*object{}}
	answer(w, struct {
		XMLName               xml.Name `xml:"InitiateMultipartUploadResult"`
		Bucket, Key, UploadId string
	}{Bucket: Bucket, Key: key, UploadId: id})
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/xml")
	if err := xml.NewEncoder(w).Encode(v); err != nil {
		panic(err)
	}
}

func (s *Server) part(w http.ResponseWriter, key, id, number string, body []byte) {
	u := s.uploads[id]
	n, err := strconv.Atoi(number)
	if u == nil || u.key != key || err != nil || n < 1 || n > 10_000 {
		Refuse(w, http.StatusNotFound, "NoSuchUpload", id)
		return
	}
	u.parts[n] = newObject(body, nil)
	w.Header().Set("ETag", `"`+u.parts[n].etag+`"`)
	w.Header().Set("X-Amz-Checksum-Crc32c", crc(body))
}

// LosePart forgets a part of an unfinished upload.
func (s *Server) LosePart(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.uploads {
		delete(u.parts, n)
	}
}

func (s *Server) complete(w http.ResponseWriter, r *http.Request, key, id string, body []byte) {
	var want struct {
		Part []struct {
			PartNumber           int
			ETag, ChecksumCRC32C string
		}
	}
	u := s.uploads[id]
	if u == nil || u.key != key {
		Refuse(w, http.StatusNotFound, "NoSuchUpload", id)
		return
	}
	if err := xml.Unmarshal(body, &want); err != nil || len(want.Part) == 0 {
		Refuse(w, http.StatusBadRequest, "MalformedXML", string(body))
		return
	}
	if !s.allowed(w, r, key) {
		return // the upload stays
	}
	var data []byte
	for i, p := range want.Part {
		have := u.parts[p.PartNumber]
		switch {
		case have == nil, strings.Trim(p.ETag, `"`) != have.etag, p.ChecksumCRC32C != crc(have.data):
			Refuse(w, http.StatusBadRequest, "InvalidPart", strconv.Itoa(p.PartNumber))
			return
		case i > 0 && p.PartNumber <= want.Part[i-1].PartNumber:
			Refuse(w, http.StatusBadRequest, "InvalidPartOrder", strconv.Itoa(p.PartNumber))
			return
		case i < len(want.Part)-1 && len(have.data) < minPart:
			Refuse(w, http.StatusBadRequest, "EntityTooSmall", strconv.Itoa(len(have.data)))
			return
		}
		data = append(data, have.data...)
	}
	o := newObject(data, u.meta)
	s.objects[key] = o
	delete(s.uploads, id)
	answer(w, struct {
		XMLName           xml.Name `xml:"CompleteMultipartUploadResult"`
		Bucket, Key, ETag string
	}{Bucket: Bucket, Key: key, ETag: `"` + o.etag + `"`})
}

func (s *Server) abort(w http.ResponseWriter, id string) {
	if s.uploads[id] == nil {
		Refuse(w, http.StatusNotFound, "NoSuchUpload", id)
		return
	}
	delete(s.uploads, id)
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) get(w http.ResponseWriter, r *http.Request, key string) {
	o := s.objects[key]
	if o == nil {
		Refuse(w, http.StatusNotFound, "NoSuchKey", key)
		return
	}
	for k, v := range o.meta {
		w.Header()[k] = v
	}
	w.Header().Set("ETag", `"`+o.etag+`"`)
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Unix(1e9, 0), strings.NewReader(string(o.data)))
}
