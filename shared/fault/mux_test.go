package fault

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestMuxAnswersWithErrorBodies(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /a/{name}", func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.PathValue("name"))) })
	mux.HandleFunc("POST /b", func(http.ResponseWriter, *http.Request) {})
	h := Mux(mux)
	for _, c := range []struct {
		method, path string
		status       int
		code         Code
		allow        string
	}{
		{"GET", "/nope", http.StatusNotFound, NotFound, ""},
		{"GET", "/b", http.StatusMethodNotAllowed, InvalidRequest, "POST"},
		{"DELETE", "/a/x", http.StatusMethodNotAllowed, InvalidRequest, "GET, HEAD"},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(c.method, c.path, nil))
		var b Body
		if err := json.Unmarshal(w.Body.Bytes(), &b); err != nil || w.Code != c.status || b.Code != c.code {
			t.Errorf("%s %s: %d %s", c.method, c.path, w.Code, w.Body)
		}
		if got := w.Header().Get("Allow"); got != c.allow || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: headers %v", c.method, c.path, w.Header())
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/a/x", nil))
	if w.Code != http.StatusOK || w.Body.String() != "x" {
		t.Errorf("a route: %d %s", w.Code, w.Body)
	}
}
