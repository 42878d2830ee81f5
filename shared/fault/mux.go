package fault

import "net/http"

// Mux serves mux, and answers what it has no route for with an error body instead of its plain
// text: 404, or 405 with Allow for a path that other methods have.
func Mux(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		none, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		asked := plain{header: w.Header(), status: http.StatusOK}
		none.ServeHTTP(&asked, r)
		if asked.status == http.StatusMethodNotAllowed {
			New(InvalidRequest, "method not allowed").WriteHTTPStatus(w, asked.status)
			return
		}
		ErrNotFound.WriteHTTP(w)
	})
}

// plain takes an answer of net/http's own, of which only the status and the headers are of use.
type plain struct {
	header http.Header
	status int
}

func (p *plain) Header() http.Header         { return p.header }
func (p *plain) WriteHeader(status int)      { p.status = status }
func (p *plain) Write(b []byte) (int, error) { return len(b), nil }
