package operator

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// table writes rows in aligned columns under a head.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer, head ...string) *table {
	t := &table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	t.row(head...)
	return t
}

func (t *table) row(cells ...string) {
	for i, c := range cells {
		if c == "" {
			cells[i] = "-"
		}
	}
	_, _ = fmt.Fprintln(t.w, strings.Join(cells, "\t")) // shows in flush
}

// flush ends the table. A terminal that is gone is nobody to tell.
func (t *table) flush() { _ = t.w.Flush() }

// ago is the time since an instant, to the second; "-" for none.
func ago(at, now time.Time) string {
	if at.IsZero() || at.Unix() <= 0 {
		return "-"
	}
	return max(now.Sub(at), 0).Truncate(time.Second).String()
}
