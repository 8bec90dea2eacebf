#!/bin/sh
# Boots a board (virt, else MPS2-AN386) in QEMU with its serial port on this terminal; Ctrl-A X quits.
#
# defmt frames leave QEMU on its standard output, so the serial port takes the terminal itself and
# the frames go to a file beside the ELF, for: defmt-print -e ELF < defmt.bin
# Without a terminal the serial port is standard input and output. After the end of input the board
# may finish what it was told: QEMU quits when it has said nothing for three seconds.
set -eu
elf=$1
log=${elf%/*}/defmt.bin
case ${elf##*/} in
virt) program=qemu-system-riscv32 package=qemu-system-misc machine="virt -bios none" ;;
*) program=qemu-system-arm package=qemu-system-arm machine=mps2-an386 ;;
esac
if ! command -v $program >/dev/null; then
    echo "$program is not installed: apt-get install $package" >&2
    exit 1
fi
# shellcheck disable=SC2086 # a name, and options
set -- -M $machine -display none -semihosting-config enable=on,target=native -kernel "$elf"
if [ -t 0 ] && [ -t 1 ]; then
    echo "Ctrl-A X quits QEMU; times and speeds that the board says are this computer's"
    saved=$(stty -g)
    # QEMU sets a speed that a pseudo-terminal does not have; stty restores the rest and complains.
    trap 'stty "$saved" 2>/dev/null || true' EXIT
    stty raw -echo
    $program "$@" -chardev serial,id=uart,mux=on,path=/dev/tty -serial chardev:uart \
        -mon chardev=uart,mode=readline >"$log"
else
    pipes=$(mktemp -d)
    mkfifo "$pipes/uart.in" "$pipes/uart.out"
    $program "$@" -monitor none -chardev pipe,id=uart,path="$pipes/uart" \
        -serial chardev:uart </dev/null >"$log" &
    qemu=$!
    tee "$pipes/said" <"$pipes/uart.out" &
    tee=$!
    # Of a gentler signal QEMU would speak.
    trap 'kill -KILL $qemu $tee 2>/dev/null; rm -r "$pipes"' EXIT
    cat >"$pipes/uart.in"
    # It says something at boot, so nothing at all means that it is still on the way there.
    before=
    now=0
    while kill -0 $qemu 2>/dev/null && { [ "$now" = 0 ] || [ "$now" != "$before" ]; }; do
        before=$now
        sleep 3
        now=$(wc -c 2>/dev/null <"$pipes/said" || echo 0)
    done
fi
