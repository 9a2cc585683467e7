package s3test

import (
	"encoding/xml"
	"net/http"
	"sort"
	"strings"
)

type contents struct {
	Key, LastModified, ETag string
	Size                    int
}

type prefixes struct{ Prefix string }

// list answers with one page. The token is the last name of the page before.
func (s *Server) list(w http.ResponseWriter, prefix, delimiter, token string) {
	var a struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		Name, Prefix          string
		IsTruncated           bool
		NextContinuationToken string `xml:",omitempty"`
		Contents              []contents
		CommonPrefixes        []prefixes
	}
	a.Name, a.Prefix = Bucket, prefix
	last := ""
	for _, key := range s.keys() {
		rest, ok := strings.CutPrefix(key, prefix)
		name := key
		if i := strings.Index(rest, "/"); delimiter == "/" && i >= 0 {
			name = prefix + rest[:i+1]
		}
		if !ok || name <= token || name == last {
			continue
		}
		if len(a.Contents)+len(a.CommonPrefixes) == s.Page {
			a.IsTruncated, a.NextContinuationToken = true, last
			break
		}
		last = name
		if name == key {
			o := s.objects[key]
			a.Contents = append(a.Contents, contents{key, "2026-01-02T03:04:05.000Z", `"` + o.etag + `"`, len(o.data)})
		} else {
			a.CommonPrefixes = append(a.CommonPrefixes, prefixes{name})
		}
	}
	answer(w, a)
}

func (s *Server) listUploads(w http.ResponseWriter, prefix string) {
	type entry struct{ Key, UploadId, Initiated string }
	var a struct {
		XMLName        xml.Name `xml:"ListMultipartUploadsResult"`
		Bucket, Prefix string
		IsTruncated    bool
		Upload         []entry
	}
	a.Bucket, a.Prefix = Bucket, prefix
	for id, u := range s.uploads {
		if strings.HasPrefix(u.key, prefix) {
			a.Upload = append(a.Upload, entry{u.key, id, "2026-01-02T03:04:05.000Z"})
		}
	}
	sort.Slice(a.Upload, func(i, j int) bool { return a.Upload[i].UploadId < a.Upload[j].UploadId })
	answer(w, a)
}

func (s *Server) deleteAll(w http.ResponseWriter, body []byte) {
	var want struct{ Object []struct{ Key string } }
	if err := xml.Unmarshal(body, &want); err != nil || len(want.Object) > 1000 {
		Refuse(w, http.StatusBadRequest, "MalformedXML", "at most 1000 objects")
		return
	}
	type deleted struct{ Key string }
	var a struct {
		XMLName xml.Name `xml:"DeleteResult"`
		Deleted []deleted
	}
	for _, o := range want.Object {
		delete(s.objects, o.Key)
		a.Deleted = append(a.Deleted, deleted{o.Key})
	}
	answer(w, a)
}
