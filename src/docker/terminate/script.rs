//! The script that kills a command's processes from inside the container: shell built-ins, and one `grep` a round.

/// Exits 0 when a round found nothing, 1 when the rounds did not suffice, 3 without `grep`; where `grep` cannot be
/// started because the process limit is used up, a shell ends with 2 or more.
///
/// Arguments: `$1` the mark; `$2` a text in command lines, or empty; `$3` not empty where the container is exclusive;
/// `$4` an age in hundredths of a second, or empty; `$5` not empty to do it without `grep` and without starting any
/// process, which takes longer: a shell reads such files byte by byte.
///
/// A round takes a picture of all processes (`P` parent, `S` session, `T` start, by id) and chooses (`k`): those with
/// the mark or the text; then, until it grows no more, those in a session of a chosen one and children of chosen ones.
/// No other process can join a session, so none is chosen by mistake. Two sorts of orphan are added, which must have
/// process 1 as parent and no command's mark: with `$3` all outside of its session, unless another command (marked, or
/// started from outside, so without a parent in here) runs; with `$4` those not older than that in a session whose
/// leader is gone. A process group dies at once, so that one that forks cannot outrun the script. Never chosen are
/// process 1, its session, and the script's own.
pub const SCRIPT: &str = r#"m=$1 a=$2 x=$3 t=$4 g=$5 r=0
[ -n "$g" ] || command -v grep >/dev/null 2>&1 || exit 3
has() {
  while IFS= read -r c || [ -n "$c" ]; do
    case $c in *"$1"*) return 0 ;; esac
  done <"$2"
  return 1
}
look() {
  l=
  if [ -n "$g" ]; then
    for p in $all; do has "$1" "/proc/$p/$2" && l="$l $p"; done
  else
    for e in $(grep -zlsF -e "$1" /proc/[0-9]*/"$2"); do e=${e#/proc/} l="$l ${e%%/*}"; done
  fi
}
choose() {
  case "$k " in *" $1 "*) return ;; esac
  eval "s=\$S$1"
  [ "$s" = "$o" ] || [ "$s" = "$$" ] && return
  k="$k $1" ks="$ks $s" n=1
}
each() { for p in $l; do case "$all " in *" $p "*) choose "$p" ;; esac; done; }
spread() {
  n=1
  while [ -n "$n" ]; do
    n=
    for p in $all; do
      eval "q=\$P$p s=\$S$p"
      case "$k " in *" $q "*) choose "$p" ;; esac
      case "$ks " in *" $s "*) choose "$p" ;; esac
    done
  done
}
while [ "$r" -lt 200 ]; do
  r=$((r+1)) all= k= ks= o=1
  for e in /proc/[0-9]*/stat; do
    p=${e#/proc/} p=${p%/stat} l=
    while read -r c; do l="$l $c"; done <"$e" || continue
    l=${l##*) }
    set -- $l
    case $1 in ''|Z|X) continue ;; esac
    eval "P$p=$2 G$p=$3 S$p=$4 T$p=${20}"
    all="$all $p"
    [ "$p" = 1 ] && o=$4
  done
  look "$m" environ
  each
  [ -n "$a" ] && look "$a" cmdline && each
  spread
  if [ -n "$x$t" ]; then
    look "${m%%=*}=" environ
    w=$l h= f=$x
    read -r u c </proc/uptime
    u=${u%.*}${u#*.}
    for p in $all; do
      eval "q=\$P$p s=\$S$p"
      [ "$p" = 1 ] || [ "$s" = "$o" ] || [ "$s" = "$$" ] && continue
      case "$k " in *" $p "*) continue ;; esac
      case "$w " in *" $p "*) f= ;; *) [ "$q" = 0 ] && f= || h="$h $p" ;; esac
    done
    for p in $h; do
      eval "q=\$P$p s=\$S$p y=\$((u-T$p))"
      [ "$q" = 1 ] || continue
      [ -n "$f" ] && choose "$p"
      case "$all " in *" $s "*) continue ;; esac
      [ -n "$t" ] && [ "$y" -ge 0 ] && [ "$y" -le "$t" ] && choose "$p"
    done
    spread
  fi
  [ -n "$k" ] || exit 0
  for p in $k; do
    eval "q=\$G$p"
    [ "$q" -gt 1 ] && kill -9 "-$q"
    kill -9 "$p"
  done
done 2>/dev/null
exit 1"#;
