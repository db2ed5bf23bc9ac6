-- Nothing to do.
;;
