import signal

# a shell that starts this in the background has it ignore interrupts, and so would all processes that tests start
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
