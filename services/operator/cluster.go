package operator

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/subject"
)

func (t *tool) slots() *cobra.Command {
	return &cobra.Command{
		Use:   "slots",
		Short: "Show which authority leads which slots",
		Args:  args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			var reply api.SlotsReply
			if err := t.call(c.Context(), subject.Slots, api.EmptyRequest{}, &reply); err != nil {
				return err
			}
			return t.print(reply, func(w io.Writer) { printSlots(w, reply) })
		},
	}
}

func printSlots(w io.Writer, reply api.SlotsReply) {
	tab := newTable(w, "SLOT", "STATE", "LEADER", "TERM", "EPOCH", "ROUTES", "HASH SLOTS")
	for _, s := range reply.Slots {
		var hashes []string
		for _, h := range s.HashSlots {
			hashes = append(hashes, strconv.Itoa(h))
		}
		tab.row(strconv.Itoa(int(s.SlotID)), string(s.State), s.LeaderNode, strconv.FormatUint(s.Term, 10),
			strconv.FormatUint(s.ConfigEpoch, 10), strconv.FormatUint(s.Routes, 10), strings.Join(hashes, ","))
	}
	tab.flush()
}

func (t *tool) nodes() *cobra.Command {
	return &cobra.Command{
		Use:   "nodes",
		Short: "Show the live processes of the cluster",
		Args:  args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			var reply api.NodesReply
			if err := t.call(c.Context(), subject.Nodes, api.EmptyRequest{}, &reply); err != nil {
				return err
			}
			return t.print(reply, func(w io.Writer) { printNodes(w, reply, time.Now()) })
		},
	}
}

func printNodes(w io.Writer, reply api.NodesReply, now time.Time) {
	slices.SortStableFunc(reply.Nodes, func(a, b api.Node) int {
		return strings.Compare(a.Service+" "+a.NodeID, b.Service+" "+b.NodeID)
	})
	tab := newTable(w, "SERVICE", "NODE", "STATE", "SESSIONS", "UP", "VERSION", "BOOT")
	for _, n := range reply.Nodes {
		sessions := ""
		if n.Sessions != nil {
			sessions = fmt.Sprint(*n.Sessions)
		}
		tab.row(n.Service, n.NodeID, n.State, sessions, ago(n.StartedAt.Time, now), n.Version, n.BootID)
	}
	tab.flush()
}
