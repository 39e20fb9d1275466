export TERM=screen
t() { tmux -f /dev/null -S ./sock "$@"; }
t new-session -d -s one -x 80 -y 20 'PS1="ready> " exec sh -i'
until t capture-pane -p -t one | grep -q 'ready>'; do sleep 0.05; done
t send-keys -t one 'echo fo''und $((6 * 7)); stty size' Enter
until t capture-pane -p -t one | grep -q '^19 80\|^20 80'; do sleep 0.05; done
t capture-pane -p -t one | grep -v '^$'
t split-window -t one 'for i in 1 2 3 4 5 6; do echo tick $i; sleep 0.1; done; exec cat'
until t capture-pane -p -t one.1 | grep -q 'tick 6'; do sleep 0.05; done
t send-keys -t one.1 'typed' Enter
until [ "$(t capture-pane -p -t one.1 | grep -c typed)" = 2 ]; do sleep 0.05; done
t list-panes -t one -F '#{pane_index} #{pane_width}x#{pane_height} #{pane_current_command}'
t resize-pane -t one.0 -y 4
t new-window -t one -n second 'trap "echo hung up > hup; exit" HUP; while :; do sleep 0.05; done'
t list-windows -t one -F '#{window_index} #{window_panes}'
t set-buffer 'pasted'
t show-buffer; echo
t pipe-pane -t one.0 'cat > piped'
t wait-for -S done & t wait-for done && echo waited
wait
t kill-server
until [ -s hup ]; do sleep 0.05; done
cat hup
t list-sessions 2>/dev/null || echo "status $?"
rm -f hup sock piped
